"""The supervisor's loop: gathers what happened, decides, acts; one turn at a time.

Signals, the zygote, the child's link and the peers' answers all end in `_turn`, under the pod's lock.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.probes import GENERATION
from dtj_trainer.cluster.task_mode import Part, Place
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.contract import EXIT_RETRY, ExitClass
from dtj_trainer.ipc.connection import Connection, connection_pair
from dtj_trainer.ipc.messages import (
    Exited,
    Message,
    ProcessExit,
    ReadyForTakeover,
    SaveNow,
    Serving,
    Start,
    Started,
    StartOrder,
    StepsDone,
    ZygoteReady,
)
from dtj_trainer.ipc.reporter import ENDING_SAVE_SECONDS
from dtj_trainer.supervisor import process_pool, standby, termination_message
from dtj_trainer.supervisor.health_check import SilenceWatch
from dtj_trainer.supervisor.http.endpoints import PodFacts
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.http.peer_client import Answer, Messenger
from dtj_trainer.supervisor.http.status import Pod
from dtj_trainer.supervisor.membership import Refusal, Rendezvous, Stage
from dtj_trainer.supervisor.process_pool import Nursery, Unborn
from dtj_trainer.supervisor.program import Program, uses_us
from dtj_trainer.supervisor.progress import WRITING_PHASES, Progress
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.shutdown import Departure
from dtj_trainer.supervisor.standby import Standby
from dtj_trainer.supervisor.termination_message import Ending
from dtj_trainer.supervisor.training_process import Child, Restart, Sentence, judge

TICK_SECONDS: Final = 0.25
QUICK_SECONDS: Final = 1.0
"""A child that ends sooner has failed at its start."""
FIRST_BACKOFF: Final = 0.25
LAST_BACKOFF: Final = 10.0
FORGIVEN_SECONDS: Final = 600.0
"""So much progress resets the count of restarts."""
SAVE_SECONDS: Final = 5.0
"""How long a save may go on in a process whose cluster is no more."""
TOLD_SECONDS: Final = 3.0


class Supervision:
    """PID 1 at work."""

    def __init__(self, settings: Settings, place: Place, program: Program | None, nursery: Nursery) -> None:
        self._settings = settings
        self._place = place
        self._program = program
        self._nursery = nursery
        self._cgroup = Cgroup()
        self._standby: Standby | None = None
        if standby.possible(settings, place, nursery):
            self._standby = Standby(nursery, self._cluster, self._cgroup)
        self._selector = selectors.DefaultSelector()
        self._wake, woken = socket.socketpair()
        self._woken = woken
        for end in (self._wake, woken):
            end.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)
        port = self._standby.port if self._standby else 0
        self._rendezvous = Rendezvous(replace(place.identity(), standby_port=port), place.peers)
        self._messenger = Messenger({task: place.endpoints[task] for task in place.peers}, self._answered)
        self._answers: deque[Answer] = deque()
        self._trouble: dict[Task, Answer] = {}
        self._progress = Progress()
        self._departure = Departure(settings, place, self._rendezvous, self._progress)
        self._metrics = Metrics()
        self._pod = Pod(
            place=place,
            ours=program is not None and uses_us(program.text()),
            rendezvous=self._rendezvous,
            progress=self._progress,
            departure=self._departure,
            metrics=self._metrics,
            standby=self._standby,
        )
        self.facts = PodFacts(self._pod, self._notify, self._messenger.called)
        self._silence = SilenceWatch(place.config.endpoint(place.task)[1] if self._pod.serves else 0)
        self._signals: deque[int] = deque()
        now = time.monotonic()
        self._born = 0
        self._fork_at = now
        self._waiting_since = now
        self._quick = 0
        self._spent = 0
        self._overtaken_at: float | None = None
        self._odd_at: float | None = None
        self._printed = False

    # --- the loop

    @property
    def _runs(self) -> bool:
        """Whether our child is in a cluster that is not known to be lost."""
        return self._rendezvous.me.stage is Stage.RUNNING

    def heed_signals(self, early: Sequence[int]) -> None:
        """From now on, and those that came before; before anybody is told that we are there."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self._signalled)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        for came in early:
            signal.raise_signal(came)

    def run(self) -> Ending:
        """Until the container has to end."""
        self._messenger.start()
        while self._departure.ending is None:
            self._selector_turn()
        return self._finish(self._departure.ending)

    def _selector_turn(self) -> None:
        self._watch_sockets()
        self._selector.select(self._patience())
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with self._pod.lock:
            self._turn(time.monotonic())

    def _watch_sockets(self) -> None:
        """Told apart by themselves, as a new one may have the number of one that was closed."""
        wanted: set[socket.socket | Connection] = {self._woken}
        for connection in (self._nursery.control, *(child.connection for child in self._pod.children())):
            if connection is not None and connection.connected:
                wanted.add(connection)
        watched = {key.fileobj for key in self._selector.get_map().values()}
        for gone in watched.difference(wanted):
            self._selector.unregister(gone)
        for new in wanted.difference(watched):
            self._selector.register(new, selectors.EVENT_READ)

    def _patience(self) -> float:
        moments = [self._nursery.next_look(), self._departure.leave_at]
        if self._pod.child is None:
            moments.append(self._fork_at)
        now = time.monotonic()
        return max(0.0, min([TICK_SECONDS, *(m - now for m in moments if m is not None and m > now)]))

    def _signalled(self, number: int, _frame: object) -> None:
        self._signals.append(number)

    def _notify(self) -> None:
        try:
            self._wake.send(b"!")
        except BlockingIOError:
            return

    def _turn(self, now: float) -> None:
        self._pod.turned_at = now
        signals = [self._signals.popleft() for _ in range(len(self._signals))]
        self._read_link(now)  # what was said before they came
        if self._standby:
            self._standby.hear()
        self._nursery.listen_now()
        self._nursery.reap()
        for number in signals:
            if number in {signal.SIGTERM, signal.SIGINT}:
                self._leave(now)
        self._nursery.tend(now)
        for event in self._nursery.events():
            self._happened(event, now)
        while self._answers:
            self._note_answer(self._answers.popleft())
        self._check_versions(now)
        self._departure.tend(self._pod.child, self._trouble, now)
        self._check_overtaken(now)
        if self._departure.ending is None and not self._departure.stopping and self._odd_at is None:
            self._begin(now)
            self._gather(now)
            self._check_life(now)
            self._tend_standby(now)
        self._tell()

    def _leave(self, now: float) -> None:
        """SIGTERM. What is not needed for saving goes meanwhile: a container is gone when all its memory is."""
        self._departure.stop(self._pod.child, now)
        if self._departure.stopping:
            self._nursery.retire()
            self._rendezvous.keep_no_standby()
            if self._standby:
                self._standby.dismiss()

    # --- the child's coming and going

    def _begin(self, now: float) -> None:
        if self._pod.child is not None or now < self._fork_at or self._promote():
            return
        ours, theirs = connection_pair()
        self._born += 1
        self._pod.child = Child(self._born, ours, self._cgroup.oom_kills())
        self._nursery.bear(self._born, self._order(), theirs)
        self._rendezvous.follow()
        self._rendezvous.park(standby=False)

    def _order(self) -> StartOrder:
        program = self._program
        return StartOrder(
            serves=self._pod.serves,
            in_cluster=self._pod.member,
            has_peers=bool(self._pod.place.peers),
            uses_dtj=self._pod.ours,
            program=program.name if program else "",
            arguments=program.arguments if program else (),
            is_module=program.is_module if program else False,
        )

    def _promote(self) -> bool:
        """Let the standby be the child; True also while one that is of no use is not gone yet."""
        if self._standby is None:
            return False
        moved_on = self._rendezvous.follow()
        child = None if moved_on else self._standby.take(self._rendezvous)
        if child is None:
            self._standby.dismiss()
            return self._standby.process is not None
        self._pod.child = child
        self._rendezvous.park(standby=True)
        return True

    def _dismiss(self, child: Child) -> None:
        """A standby that stands in the child's place is of no use, or gone: say so, and begin anew when it is dead."""
        child.sentence = Sentence.DISMISSED
        self._rendezvous.dismiss_standby()
        if child.pid is not None:
            process_pool.kill(child.pid)

    def _tend_standby(self, now: float) -> None:
        child = self._pod.child
        if self._standby is None or child is None or not (child.prepared and child.released and self._progress.stepped):
            return
        if self._standby.tend(now, child, self._rendezvous, self._born + 1, self._order()):
            self._born += 1

    def _cluster(self) -> TfConfig:
        """The job's cluster; who cannot be reached by name yet stands there with an address."""
        return self._place.config.on(self._messenger.hosts())

    def _gather(self, now: float) -> None:
        """Let the child go once the others are ready too."""
        child = self._pod.child
        if child is None or child.released:
            return
        if child.sentence is Sentence.DISMISSED:
            return
        if self._pod.member and (self._rendezvous.follow() or self._rendezvous.deserted) and child.standby:
            self._dismiss(child)
            return
        if awaited := self._awaited():
            self._check_start(awaited[0], now)
            return
        self._rendezvous.stand(Stage.RUNNING)
        self._pod.has_run = True
        child.released_at = now
        self._progress.child_started(now)
        if child.standby:
            self._progress.taken_over()
        self._silence.restart(now)
        environment = {GENERATION: str(self._rendezvous.me.generation)}
        cluster = self._cluster()
        if self._pod.member and cluster != self._place.config:
            environment["TF_CONFIG"] = cluster.wire()
        child.say(Start(environment))
        if self._pod.checkpoint_owed:
            child.say(SaveNow())
            self._pod.checkpoint_owed = False

    def _happened(self, event: process_pool.Event, now: float) -> None:
        match event:
            case ZygoteReady(seconds):
                self._metrics.bringup["import"] = seconds
            case Started(number, pid):
                if self._pod.child is not None and self._pod.child.number == number:
                    self._pod.child.pid = pid
                elif self._standby is None or not self._standby.born(number, pid):
                    process_pool.kill(pid)
            case Unborn(number):
                if self._pod.child is not None and self._pod.child.number == number:
                    self._child_died(self._pod.child, signal.SIGKILL, now)
                elif self._standby is not None:
                    self._standby.died(None, now)
            case Exited(pid, status):
                if self._pod.child is not None and self._pod.child.pid == pid:
                    self._read_link(now)
                    self._child_died(self._pod.child, status, now)
                elif self._standby is not None:
                    self._standby.died(pid, now)

    def _child_died(self, child: Child, status: int, now: float) -> None:
        if child.pid is not None:
            process_pool.kill(child.pid)  # what is left of its group
        child.connection.close()
        self._pod.child = None
        self._overtaken_at = None
        managed = self._progress.managed
        self._progress.child_lost()
        if child.standby and not child.released and not self._departure.stopping:
            self._dismiss(child)
            self._fork_at = now
            return
        if child.exit is not None:
            self._progress.take_exit(child.exit)
        if self._departure.stopping:
            self._departure.stopped(child, managed=managed)
            return
        verdict = judge(
            child,
            status,
            oom_kills=self._cgroup.oom_kills(),
            serves=self._pod.serves,
            member=self._pod.member,
        )
        if isinstance(verdict, Restart):
            self._restart(child, verdict, now)
        else:
            self._printed = child.exit is not None and child.exit.printed
            self._departure.end(verdict)

    def _restart(self, child: Child, why: Restart, now: float) -> None:
        if self._spent >= self._settings.restarts:
            ending = why.spent
            text = f"{ending.message}; all {self._settings.restarts} restarts in place are used up"
            self._departure.end(replace(ending, message=text))
            return
        self._spent += 1
        self._pod.restarts += 1
        self._metrics.restarts[why.cause] += 1
        if why.cause == "stalled":
            self._metrics.stalls += 1
        quick = child.sentence is None and now - (child.released_at or now) < QUICK_SECONDS
        self._quick = self._quick + 1 if quick else 0
        delay = min(FIRST_BACKOFF * 2 ** (self._quick - 1), LAST_BACKOFF) if quick else 0.0
        self._note(f"{why.message}; starting again in place ({self._spent} of {self._settings.restarts})")
        if self._rendezvous.me.stage is not Stage.LEAVING:
            self._rendezvous.process_lost()
        if self._place.part is Part.COORDINATOR:
            self._rendezvous.known.clear()
        self._fork_at = self._waiting_since = now + delay
        if delay == 0.0:
            self._begin(now)

    # --- the link

    def _read_link(self, now: float) -> None:
        child = self._pod.child
        if child is not None:
            for message in child.messages():
                self._hear_child(child, message, now)

    def _hear_child(self, child: Child, message: Message, now: float) -> None:
        self._progress.hear(message, now, time.time())
        self._metrics.hear(message)
        match message:
            case ReadyForTakeover():
                child.prepared = True
            case StepsDone() if child.released_at is not None and now - child.released_at >= FORGIVEN_SECONDS:
                self._spent = 0
            case Serving():
                self._rendezvous.stand(Stage.SERVING)
            case ProcessExit():
                child.exit, child.ended_at = message, now
                self._hear_exit(message, now)

    def _hear_exit(self, reported: ProcessExit, now: float) -> None:
        """Tell the peers at once; the process itself needs a moment more to be gone."""
        if reported.exit_class == ExitClass.DONE:
            self._progress.take_exit(reported)
            self._departure.finished(now)
        elif reported.exit_class == ExitClass.PEER_LOST and not self._departure.stopping and self._runs:
            self._rendezvous.process_lost()

    # --- the peers

    def _answered(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._notify()

    def _note_answer(self, answer: Answer) -> None:
        self._trouble[answer.task] = answer
        if answer.refusal is Refusal.OLDER_ATTEMPT:
            text = f"{answer.task} knows a newer pod in this one's place; this one leaves the field"
            self._departure.end(Ending(ExitClass.FENCED, EXIT_RETRY, text))
        elif answer.identity is not None:
            self._rendezvous.hear(answer.identity)

    def _tell(self) -> None:
        me = self._rendezvous.me
        waiting = self._pod.child is not None and not self._pod.child.released
        self._messenger.tell(me, asking=waiting or self._departure.done)

    def _check_overtaken(self, now: float) -> None:
        """A peer has left the cluster of our child: nothing can come of it any more."""
        child = self._pod.child
        if child is None or self._departure.stopping or not child.released:
            return
        if self._overtaken_at is None:
            if not self._rendezvous.overtaken:
                return
            self._overtaken_at = now
        if child.ended_at is not None or child.pid is None or process_pool.is_dead(child.pid):
            return  # how it ended will be told, or was
        if child.sentence is None and now - self._overtaken_at >= self._save_grace():
            child.sentence = Sentence.OVERTAKEN
            if self._runs:
                self._rendezvous.process_lost()
            process_pool.kill(child.pid)

    def _save_grace(self) -> float:
        """How long a save may still go on; whether its writer still may commit is for the writer to look up."""
        if self._progress.phase in WRITING_PHASES:
            return SAVE_SECONDS
        return ENDING_SAVE_SECONDS if self._progress.saving_since is not None else 0.0

    def _check_versions(self, now: float) -> None:
        odd = self._rendezvous.odd_version()
        if odd is None or self._departure.ending is not None:
            return
        if self._odd_at is None:
            self._odd_at = now
        self._messenger.tell(self._rendezvous.me, asking=True)
        if self._messenger.all_told() or now - self._odd_at > TOLD_SECONDS:
            mine = self._rendezvous.me.tensorflow
            text = f"{odd.task} runs TensorFlow {odd.tensorflow}, this pod {mine}; give all replicas the same image"
            self._departure.end(Ending(ExitClass.PREFLIGHT_FAILED, 1, text))

    def _awaited(self) -> list[Task]:
        """Who does not stand ready; in a mesh also who calls us and does not answer where TensorFlow would call him."""
        missing = self._pod.missing()
        if missing or not self._pod.member:
            return missing
        return [task for task, answer in self._trouble.items() if answer.identity is None]

    def _check_start(self, task: Task, now: float) -> None:
        limit = self._settings.start_seconds
        if now - self._waiting_since < limit:
            return
        answer = self._trouble.get(task)
        if answer is None or not (answer.trouble or answer.refusal):
            words = "is there but not ready"
        elif answer.refusal is Refusal.OTHER_JOB:
            words = "belongs to another job"
        else:
            words = f"cannot be reached: {answer.trouble}"
        address = self._place.config.address(task)
        text = f"{task} ({address}) {words}, after {limit:g} s; look at that pod and at the job's service"
        failed = ExitClass.PEER_LOST if self._pod.has_run else ExitClass.PREFLIGHT_FAILED
        self._departure.end(Ending(failed, EXIT_RETRY, text))

    # --- life and the end

    def _check_life(self, now: float) -> None:
        child = self._pod.child
        if child is None or not child.released or child.pid is None or child.sentence is not None:
            return
        if child.ended_at is not None:
            if now - child.ended_at <= self._settings.save_seconds:
                return
        elif self._progress.stalled(now, self._settings.stall_seconds, self._settings.start_seconds):
            child.sentence = Sentence.STALLED
        elif self._progress.save_hangs(now, self._settings.save_seconds):
            child.sentence = Sentence.SAVING
        elif self._progress.finish_hangs(now, self._settings.save_seconds):
            child.sentence = Sentence.FINISHING
        elif self._progress.serving and self._silence.silent(now):
            child.sentence = Sentence.SILENT
        else:
            return
        process_pool.kill(child.pid)

    def _finish(self, ending: Ending) -> Ending:
        for child in self._pod.children():
            if child.pid is not None:
                process_pool.kill(child.pid)
        progress = self._progress
        ending = replace(
            ending,
            step=progress.step,
            checkpoint_step=progress.checkpoint_step,
            metrics=progress.metrics,
            restarts=self._pod.restarts,
        )
        if ending.message and not self._printed:
            self._note(ending.message)
        termination_message.write(ending, self._settings.termination_log)
        return ending

    def _note(self, text: str) -> None:
        sys.stderr.write(f"dtj: {text}\n")
        sys.stderr.flush()
