"""What the end of a training process means."""

import signal
from dataclasses import replace

from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import ProcessExit
from dtj_trainer.supervisor.restart_policy import Restart, decide_restart, exit_after_sigterm
from dtj_trainer.supervisor.training_process import KillReason, TrainingProcess


def process(oom_kills: int = 0, said: ProcessExit | None = None) -> TrainingProcess:
    return TrainingProcess(1, Connection(None), oom_kills, pid=1, started_at=0.0, exit=said)


def decided(
    one: TrainingProcess, status: int, oom_kills: int = 0, *, serves: bool = False, collective: bool = True
) -> tuple[str, str, int]:
    decision = decide_restart(one, status, oom_kills=oom_kills, serves=serves, collective=collective)
    if isinstance(decision, Restart):
        return decision.cause, decision.when_used_up.exit_class, decision.when_used_up.exit_code
    return "end", str(decision.exit_class), decision.exit_code


def test_what_the_end_of_a_process_means():
    exited = lambda code: code << 8  # noqa: E731
    lost = ProcessExit("peer-lost", 75, "m")
    assert decided(process(said=lost), exited(75)) == ("peer-lost", "peer-lost", 75)
    assert decided(process(), exited(75)) == ("peer-lost", "peer-lost", 75)
    assert decided(process(), signal.SIGKILL) == ("killed", "killed", 137)
    assert decided(process(), signal.SIGSEGV) == ("killed", "killed", 139)
    assert decided(process(oom_kills=1), signal.SIGKILL, oom_kills=2) == ("end", "out-of-memory", 137)
    assert decided(process(), exited(3)) == ("end", "user-error", 3)
    assert decided(process(), exited(0)) == ("end", "done", 0)
    assert decided(process(), exited(0), serves=True)[0] == "killed"
    fenced = ProcessExit("fenced", 75)
    assert decided(process(said=fenced), exited(75)) == ("end", "fenced", 75)
    done = ProcessExit("done", 0)
    assert decided(process(said=done), signal.SIGSEGV) == ("end", "done", 0)
    wrong = ProcessExit("user-error", 3)
    assert decided(process(said=wrong), signal.SIGABRT) == ("end", "user-error", 3)
    saved = ProcessExit("preempted", 42, "m")
    assert decided(process(said=saved), exited(42)) == ("preempted", "peer-lost", 75)
    assert decided(process(said=saved), exited(42), collective=False) == ("end", "preempted", 42)
    stalled = process()
    stalled.kill_reason = KillReason.STALLED
    assert decided(stalled, signal.SIGKILL) == ("stalled", "stalled", 75)
    saving = process()
    saving.kill_reason = KillReason.SAVE_HANGS
    assert decided(saving, signal.SIGKILL) == ("stalled", "stalled", 75)
    finishing = process()
    finishing.kill_reason = KillReason.FINISH_HANGS
    assert decided(finishing, signal.SIGKILL) == ("stalled", "stalled", 75)


def test_what_the_end_of_a_process_means_after_sigterm():
    done = ProcessExit("done", 0)
    preempted = ProcessExit("preempted", 42)
    assert exit_after_sigterm(done, managed=True, saved=True).exit_code == 0
    assert exit_after_sigterm(replace(done, explicit=True), managed=False, saved=False).exit_code == 143
    assert exit_after_sigterm(preempted, managed=True, saved=False).exit_code == 42
    assert exit_after_sigterm(None, managed=False, saved=False).exit_code == 143
    assert exit_after_sigterm(None, managed=True, saved=True).exit_code == 42
