"""When a training process may start with its peers, and when its cluster is lost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.probes import GENERATION
from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.contract import EXIT_RETRY, ExitClass, ExitStatus
from dtj_trainer.ipc.messages import SaveNow, Start, StartOrder
from dtj_trainer.ipc.reporter import ENDING_SAVE_SECONDS
from dtj_trainer.supervisor.http.peer_client import ASK_SECONDS, LOOK_SECONDS, PeerAnswer, PeerClient
from dtj_trainer.supervisor.membership import Membership, MemberState, Refusal
from dtj_trainer.supervisor.process_pool import ProcessPool
from dtj_trainer.supervisor.progress import WRITING_PHASES, Progress
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.shutdown import Shutdown
from dtj_trainer.supervisor.standby import Standby
from dtj_trainer.supervisor.training_process import KillReason, TrainingProcess

SAVE_SECONDS: Final = 5.0
"""How long a save may go on in a process whose cluster is lost."""
IDLE_SECONDS: Final = 3.0
"""Without progress of the process, after which its supervisor asks whether the peers are alive."""
FROZEN_SECONDS: Final = 10.0
"""After the loss of a coordinator's process: how long the pod of a server accepts calls and answers none, until it
counts as frozen. The process has waited for its stall time before."""
TOLD_SECONDS: Final = 3.0
"""How long to wait until all peers know of another TensorFlow."""


@dataclass(slots=True)
class ClusterStart:
    """The training process, and the cluster that it is started in."""

    settings: Settings
    config: TfConfig
    mode: TaskMode
    order: StartOrder
    probe: tuple[str, int]
    """Where something listens once the programs have formed their cluster, if they report nothing by themselves."""
    pool: ProcessPool
    cgroup: Cgroup
    membership: Membership
    peer_client: PeerClient
    progress: Progress
    shutdown: Shutdown
    standby: Standby | None
    process: TrainingProcess | None = None
    """The one that trains or serves."""
    answers: dict[Task, PeerAnswer] = field(default_factory=dict)
    """The last one of each peer."""
    silent_since: dict[Task, float] = field(default_factory=dict)
    """The peers whose pods accept calls and answer none."""
    has_run: bool = False
    """A process was started at least once."""
    checkpoint_wanted: bool = False
    """Somebody asked for a checkpoint while no process trained."""
    spawn_at: float = field(default_factory=time.monotonic)
    """When the next process may be spawned."""
    waiting_since: float = field(default_factory=time.monotonic)
    """Since when the peers are waited for."""
    superseded_at: float | None = None
    other_version_at: float | None = None
    """Since when a peer with another TensorFlow is known: no process is started beside it."""

    @property
    def collective(self) -> bool:
        """Whether the cluster starts, and is lost, as a whole."""
        return self.mode is TaskMode.COLLECTIVE

    def addresses(self) -> TfConfig:
        """Return the job's cluster; tasks that cannot be reached by name yet stand there with an address."""
        return self.config.on(self.peer_client.hosts())

    def missing(self) -> list[Task]:
        """Return the peers that the process has to wait for."""
        if self.collective:
            return self.membership.missing()
        known = self.membership.known
        return [
            task for task in self.membership.peers if task not in known or known[task].state is not MemberState.SERVING
        ]

    # --- starting

    def spawn(self, now: float) -> None:
        """Have a process, where there is none: the standby, or a new one."""
        if self.process is not None or now < self.spawn_at or self._promote_standby():
            return
        self.process = TrainingProcess.spawn(self.pool, self.order, self.cgroup.oom_kills())
        self.membership.adopt_generation()
        self.membership.set_ready(standby=False)

    def _promote_standby(self) -> bool:
        """Let the standby be the process; True also while one that is of no use is not gone yet."""
        if self.standby is None:
            return False
        moved_on = self.membership.adopt_generation()
        promoted = None if moved_on else self.standby.take()
        if promoted is None:
            self.standby.dismiss()
            return self.standby.process is not None
        self.process = promoted
        self.membership.set_ready(standby=True)
        return True

    def dismiss(self, process: TrainingProcess) -> None:
        """Give up a promoted standby that is of no use, or gone: when it is dead a new process is spawned."""
        process.kill(KillReason.DISMISSED)
        self.membership.dismiss_standby()

    def start_when_ready(self, now: float) -> bool:
        """Start the process once its peers are ready too; True if it was started now.

        Ends the container when they are not ready in time.
        """
        process = self.process
        if process is None or process.started or process.kill_reason is KillReason.DISMISSED:
            return False
        moved_on = self.collective and (self.membership.adopt_generation() or self.membership.standby_abandoned)
        if moved_on and process.standby:
            self.dismiss(process)
            return False
        if awaited := self._awaited():
            self._check_patience(awaited[0], now)
            return False
        self.membership.set_state(MemberState.RUNNING)
        self.has_run = True
        process.started_at = now
        self.progress.process_started(now)
        if process.standby:
            self.progress.standby_took_over()
        process.tell(Start(self._start_environment()))
        if self.checkpoint_wanted:
            process.tell(SaveNow())
            self.checkpoint_wanted = False
        return True

    def _start_environment(self) -> dict[str, str]:
        environment = {GENERATION: str(self.membership.me.generation)}
        cluster = self.addresses()
        if self.collective and cluster != self.config:
            environment["TF_CONFIG"] = cluster.to_json()
        return environment

    def _awaited(self) -> list[Task]:
        """Return who is not ready; in a collective also who calls us but does not answer where TensorFlow calls."""
        missing = self.missing()
        if missing or not self.collective:
            return missing
        return [task for task, answer in self.answers.items() if answer.member is None]

    def _check_patience(self, task: Task, now: float) -> None:
        limit = self.settings.start_seconds
        if now - self.waiting_since < limit:
            return
        answer = self.answers.get(task)
        if answer is None or not (answer.problem or answer.refusal):
            words = "is there but not ready"
        elif answer.refusal is Refusal.OTHER_JOB:
            words = "belongs to another job"
        else:
            words = f"cannot be reached: {answer.problem}"
        address = self.config.address(task)
        text = f"{task} ({address}) {words}, after {limit:g} s; look at that pod and at the job's service"
        failed = ExitClass.PEER_LOST if self.has_run else ExitClass.PREFLIGHT_FAILED
        self.shutdown.end(ExitStatus(failed, EXIT_RETRY, text))

    # --- losing

    def ask_every(self, now: float) -> float | None:
        """Return how often to ask the peers for their state; None where they will tell."""
        process = self.process
        if self.shutdown.done or (process is not None and not process.started):
            return ASK_SECONDS
        return LOOK_SECONDS if process is not None and now - self.progress.active_at > IDLE_SECONDS else None

    def check_frozen(self, now: float) -> None:
        """End the container whose process makes no progress beside a peer in a frozen pod: only a new pod helps.

        A coordinator's process waits for a frozen server in steps, saves and wherever TensorFlow compiles something;
        the supervisor of that server would restart it, if it could act. The processes of a collective notice a frozen
        peer once their cluster is formed; until then TensorFlow waits.
        """
        if not self.has_run or self.shutdown.done:
            return
        waits = self.process is None or not self.process.started
        since = self.waiting_since if waits else self.progress.active_at
        if self.mode is not TaskMode.COORDINATOR:
            patience = self.settings.start_seconds
        else:
            patience = FROZEN_SECONDS if waits else self.progress.patience(self.settings.stall_seconds)
        for task, silent_since in self.silent_since.items():
            if now - max(since, silent_since) > patience:
                address = self.config.address(task)
                text = f"{task} ({address}) is frozen: its pod accepts calls and answers none; replace that pod"
                self.shutdown.end(ExitStatus(ExitClass.PEER_LOST, EXIT_RETRY, text))
                return

    def on_answer(self, answer: PeerAnswer) -> None:
        """Take note of what a call to a peer brought."""
        self.answers[answer.task] = answer
        if answer.silent:
            self.silent_since.setdefault(answer.task, time.monotonic())
        else:
            self.silent_since.pop(answer.task, None)
        if answer.refusal is Refusal.OLDER_ATTEMPT:
            text = f"{answer.task} knows a newer pod in this one's place; this one leaves the field"
            self.shutdown.end(ExitStatus(ExitClass.FENCED, EXIT_RETRY, text))
        elif answer.other_clock and not self.has_run:
            text = f"{answer.task} cannot be joined: {answer.problem}; synchronize the clocks of their nodes"
            self.shutdown.end(ExitStatus(ExitClass.PREFLIGHT_FAILED, EXIT_RETRY, text))
        elif answer.member is not None:
            self.membership.receive(answer.member)

    def check_versions(self, now: float) -> None:
        """End the container where a peer has another TensorFlow, once all peers had time to hear of it."""
        other = self.membership.other_version()
        if other is None or self.shutdown.exit_status is not None:
            return
        if self.other_version_at is None:
            self.other_version_at = now
        self.peer_client.tell(self.membership.me, ask_every=ASK_SECONDS)
        if self.peer_client.all_told() or now - self.other_version_at > TOLD_SECONDS:
            mine = self.membership.me.tensorflow
            text = f"{other.task} runs TensorFlow {other.tensorflow}, this pod {mine}; give all replicas the same image"
            self.shutdown.end(ExitStatus(ExitClass.PREFLIGHT_FAILED, 1, text))

    def check_superseded(self, now: float) -> None:
        """Kill a process whose cluster a peer has left: nothing can come of it any more."""
        process = self.process
        if self.shutdown.waits_for_leader:
            if self.membership.superseded:
                self._start_over(now)
            return
        if process is None or self.shutdown.stopping or not process.started:
            return
        if self.superseded_at is None:
            if not self.membership.superseded:
                return
            self.superseded_at = now
        if process.exit_reported_at is not None or not process.running:
            return  # how it ended will be told, or was
        if process.kill_reason is None and now - self.superseded_at >= self._save_grace():
            self.leave_cluster()
            process.kill(KillReason.SUPERSEDED)

    def _start_over(self, now: float) -> None:
        """Take part in the training again, after this pod's program has ended and the leader's has not."""
        self.shutdown.start_over()
        self.membership.process_lost()
        self.spawn_at = self.waiting_since = now
        if self.process is not None:
            self.process.kill(KillReason.SUPERSEDED)

    def leave_cluster(self) -> None:
        """Tell the peers that our process is lost, if they do not know yet."""
        if self.membership.me.state is MemberState.RUNNING:
            self.membership.process_lost()

    def _save_grace(self) -> float:
        """Return how long a save may still go on; whether its writer still may commit is for the writer to look up."""
        if self.progress.phase in WRITING_PHASES:
            return SAVE_SECONDS
        return ENDING_SAVE_SECONDS if self.progress.saving_since is not None else 0.0
