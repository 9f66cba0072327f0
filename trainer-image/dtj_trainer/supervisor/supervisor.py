"""The supervisor's control loop: waits, collects what happened, decides, acts, and publishes its status.

Signals, the zygote, the training process, the peers' answers and HTTP requests all end in `run_once`, on one thread.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Sequence
from typing import Final

from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.environment import Environment, tensorflow_version
from dtj_trainer.cluster.task_mode import TaskMode, peers
from dtj_trainer.cluster.tf_config import EVALUATOR
from dtj_trainer.contract import ExitClass
from dtj_trainer.ipc.messages import (
    Exited,
    Message,
    ProcessExit,
    Profile,
    ReadyForTakeover,
    SaveNow,
    Serving,
    Started,
    StepsDone,
    ZygoteReady,
)
from dtj_trainer.supervisor.cluster_start import ClusterStart
from dtj_trainer.supervisor.health_check import HealthCheck
from dtj_trainer.supervisor.http.auth import Authenticator
from dtj_trainer.supervisor.http.endpoints import Endpoints
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.http.peer_client import PeerAnswer, PeerClient
from dtj_trainer.supervisor.http.status import current_status
from dtj_trainer.supervisor.inbox import Inbox, Request
from dtj_trainer.supervisor.membership import Member, Membership, MemberState
from dtj_trainer.supervisor.process_pool import Event, ProcessPool, StartFailed, kill
from dtj_trainer.supervisor.program import Program, start_order
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.restart_policy import RESET_SECONDS, Restart, RestartCounter, decide_restart
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.shutdown import Shutdown
from dtj_trainer.supervisor.standby import Standby, free_port, standby_possible
from dtj_trainer.supervisor.termination_message import TerminationMessage, print_line
from dtj_trainer.supervisor.training_process import TrainingProcess

TICK_SECONDS: Final = 0.25


class Supervisor:
    """The supervisor, PID 1 of the pod."""

    def __init__(
        self, settings: Settings, environment: Environment, mode: TaskMode, program: Program | None, pool: ProcessPool
    ) -> None:
        config = environment.tf_config
        others = environment.http_endpoints(settings.port)
        has_standby = standby_possible(settings, mode, environment.strategy_type, preload=pool.preload)
        me = Member(
            job=environment.job_hash,
            attempt=environment.attempt,
            task=config.task,
            incarnation=secrets.token_hex(6),
            tensorflow=tensorflow_version(),
            standby_port=free_port() if has_standby else 0,
        )
        self.inbox = Inbox()
        self._settings = settings
        self._pool = pool
        self._cgroup = Cgroup()
        self._membership = Membership(me, peers(config, mode))
        auth = Authenticator(environment.uid, config.task, [*others, EVALUATOR])
        self._peer_client = PeerClient({task: others[task] for task in self._membership.peers}, auth, self.inbox.put)
        self._progress = Progress()
        self._metrics = Metrics()
        self._restarts = RestartCounter(settings.restarts, self._membership)
        self._shutdown = Shutdown(settings, mode, self._membership, self._progress, leader=config.leader)
        addresses = lambda: config.on(self._peer_client.hosts())  # noqa: E731
        self._standby = Standby(pool, self._membership, addresses, self._cgroup) if has_standby else None
        self._cluster = ClusterStart(
            settings=settings,
            config=config,
            mode=mode,
            order=start_order(program, mode, has_peers=bool(self._membership.peers)),
            probe=config.listener(environment.strategy_type),
            pool=pool,
            cgroup=self._cgroup,
            membership=self._membership,
            peer_client=self._peer_client,
            progress=self._progress,
            shutdown=self._shutdown,
            standby=self._standby,
        )
        served = config.endpoint(config.task)[1] if mode is TaskMode.SERVER else 0
        self._health = HealthCheck(settings, self._progress, served)
        self._status = current_status(self._cluster, self._restarts, time.monotonic())
        self.endpoints = Endpoints(
            lambda: self._status, self._metrics, self.inbox.put, self._peer_client.called, others, auth
        )

    # --- the loop

    def run(self) -> TerminationMessage:
        """Run the control loop until the container has to end."""
        self._peer_client.start()
        while self._shutdown.exit_status is None:
            self._wait()
            self.run_once(time.monotonic())
        return self._finish()

    def run_once(self, now: float) -> None:
        """One turn: collect what happened, decide, act, publish."""
        signals = self.inbox.signals()
        self._receive(now)  # what was said before the signals came
        self._pool.reap()
        if signal.SIGTERM in signals or signal.SIGINT in signals:
            self._stop(signals, now)
        self._pool.poll(now)
        for event in self._pool.events():
            self._on_event(event, now)
        for request in self.inbox.requests():
            self._on_request(request)
        self._cluster.check_versions(now)
        self._shutdown.poll(self._cluster.process, self._cluster.answers, now)
        self._cluster.check_superseded(now)
        self._cluster.check_frozen(now)
        if self._may_start:
            if not self._shutdown.done:
                self._cluster.spawn(now)
            if self._cluster.start_when_ready(now):
                self._health.restart(now)
            if self._membership.peer_in_callback:
                self._progress.peer_in_callback(now)
            self._check_health(now)
        self._membership.set_in_callback(in_callback=self._progress.callback_since is not None)
        self._peer_client.tell(self._membership.me, ask_every=self._cluster.ask_every(now))
        self._status = current_status(self._cluster, self._restarts, now)

    def _wait(self) -> None:
        """Wait for an input, or until the next timer."""
        moments = [self._pool.next_poll(), self._shutdown.leave_at]
        if self._cluster.process is None:
            moments.append(self._cluster.spawn_at)
        now = time.monotonic()
        seconds = min([TICK_SECONDS, *(m - now for m in moments if m is not None and m > now)])
        self.inbox.wait([self._pool.control, *(process.connection for process in self._processes())], seconds)

    @property
    def _may_start(self) -> bool:
        ends = self._shutdown.exit_status is not None or self._shutdown.stopping
        return not ends and self._cluster.other_version_at is None

    def _processes(self) -> list[TrainingProcess]:
        """Return the training process and the standby."""
        standby = self._standby.process if self._standby else None
        return [process for process in (self._cluster.process, standby) if process is not None]

    # --- what happened

    def _stop(self, signals: Sequence[int], now: float) -> None:
        """Stop on SIGTERM. What is not needed for saving goes at once: a container is gone when all its memory is."""
        for number in signals:
            if number in {signal.SIGTERM, signal.SIGINT}:
                self._shutdown.stop(self._cluster.process, number, now)
        if self._shutdown.stopping:
            self._pool.retire()
            self._membership.keep_no_standby()
            if self._standby:
                self._standby.dismiss()

    def _on_event(self, event: Event, now: float) -> None:
        process = self._cluster.process
        match event:
            case ZygoteReady(seconds):
                self._metrics.bringup["import"] = seconds
            case Started(number, pid):
                if process is not None and process.number == number:
                    process.pid = pid
                elif self._standby is None or not self._standby.on_started(number, pid):
                    kill(pid)
            case StartFailed(number):
                if process is not None and process.number == number:
                    self._on_exit(process, signal.SIGKILL, now)
                elif self._standby is not None:
                    self._standby.on_exited(None, now)
            case Exited(pid, status):
                if process is not None and process.pid == pid:
                    self._receive(now)
                    self._on_exit(process, status, now)
                elif self._standby is not None:
                    self._standby.on_exited(pid, now)

    def _on_exit(self, process: TrainingProcess, status: int, now: float) -> None:
        """Restart in place after the end of the training process, or end the container."""
        process.kill()  # what is left of its group
        process.connection.close()
        self._cluster.process = self._cluster.superseded_at = None
        managed, saved = self._progress.managed, self._progress.is_saved
        self._progress.process_lost()
        if process.standby and not process.started and not self._shutdown.stopping:
            self._cluster.dismiss(process)
            self._cluster.spawn_at = now
            return
        if process.exit is not None:
            self._progress.apply_exit(process.exit)
        if self._shutdown.stopping:
            self._shutdown.process_stopped(process, managed=managed, saved=saved)
            return
        if self._shutdown.waits_for_leader and process.kill_reason is None:
            return  # the pod waits without it
        decision = decide_restart(
            process,
            status,
            oom_kills=self._cgroup.oom_kills(),
            serves=self._cluster.mode is TaskMode.SERVER,
            collective=self._cluster.collective,
        )
        if isinstance(decision, Restart):
            self._restart(process, decision, now)
        elif decision.exit_class == ExitClass.DONE and self._cluster.collective and not self._shutdown.done:
            self._shutdown.program_done(now, job_done=False)  # it has said nothing, and its peers have to know
        else:
            self._shutdown.end(decision, process.exit)

    def _restart(self, process: TrainingProcess, restart: Restart, now: float) -> None:
        if self._restarts.used_up:
            text = f"{restart.message}; all {self._restarts.limit} restarts in place are used up"
            self._shutdown.end(restart.when_used_up._replace(message=text))
            return
        delay = self._restarts.count(process, restart.cause, now)
        self._metrics.restarts[restart.cause] += 1
        self._metrics.stalls += restart.cause == "stalled"
        print_line(f"{restart.message}; starting again in place ({self._restarts.used} of {self._restarts.limit})")
        if self._membership.me.state is not MemberState.LEAVING:
            self._membership.process_lost(restart.own_cause)
        if self._cluster.mode is TaskMode.COORDINATOR:
            self._membership.known.clear()
        self._cluster.spawn_at = self._cluster.waiting_since = now + delay
        self._cluster.spawn(now)

    def _receive(self, now: float) -> None:
        """Apply what the training process and the standby have said."""
        if (process := self._cluster.process) is not None:
            for message in process.messages():
                self._on_message(process, message, now)
        if self._standby:
            self._standby.receive()

    def _on_message(self, process: TrainingProcess, message: Message, now: float) -> None:
        self._progress.apply(message, now, time.time())
        self._metrics.apply(message)
        if self._progress.stepped:
            self._restarts.recoveries.end(now, time.time())
        match message:
            case ReadyForTakeover():
                process.prepared = True
            case StepsDone() if process.started_at is not None and now - process.started_at >= RESET_SECONDS:
                self._restarts.reset()
            case Serving():
                self._membership.set_state(MemberState.SERVING)
            case ProcessExit(exit_class):
                process.exit, process.exit_reported_at = message, now
                if exit_class == ExitClass.DONE:
                    self._progress.apply_exit(message)
                    self._shutdown.program_done(now, job_done=message.job_done)
                elif exit_class == ExitClass.PEER_LOST and not self._shutdown.stopping:
                    self._cluster.leave_cluster()  # at once: the process needs a moment more to be gone

    def _on_request(self, request: Request) -> None:
        process = self._cluster.process
        match request:
            case PeerAnswer():
                self._cluster.on_answer(request)
            case Member():
                self._membership.receive(request)
            case SaveNow() if process is None or not process.started:
                self._cluster.checkpoint_wanted = True
            case SaveNow() | Profile() if process is not None:
                process.tell(request)

    # --- health, the end

    def _check_health(self, now: float) -> None:
        if (process := self._cluster.process) is None or self._shutdown.waits_for_leader:
            return
        self._health.check(process, now)
        if self._standby and process.prepared and process.started and self._progress.stepped:
            self._standby.poll(now, process, self._cluster.order)

    def _finish(self) -> TerminationMessage:
        for process in self._processes():
            process.kill()
        message, reported = self._shutdown.termination_message(self._restarts), self._shutdown.reported
        if message.message and not (reported and reported.printed):
            print_line(message.message)
        return message
