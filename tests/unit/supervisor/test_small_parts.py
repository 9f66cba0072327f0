"""The supervisor's pure parts: settings, program text, progress, termination message, cgroup, judgement."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dtj_trainer.cluster import accelerators, environment
from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.task_mode import Part, Place, read_place, slice_environment
from dtj_trainer.cluster.tf_config import Task, read_tf_config
from dtj_trainer.contract import TERMINATION_KEYS
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.ipc.connection import Connection
from dtj_trainer.ipc.messages import (
    CheckpointRestored,
    CheckpointSaved,
    CheckpointStarted,
    PhaseChanged,
    ProcessExit,
    StepsDone,
)
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.main import child_environment
from dtj_trainer.supervisor.membership import Rendezvous
from dtj_trainer.supervisor.program import may_preload, uses_us, variables_set_for_import
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.settings import Settings, parse, termination_log
from dtj_trainer.supervisor.shutdown import Departure
from dtj_trainer.supervisor.termination_message import Ending
from dtj_trainer.supervisor.training_process import Child, Restart, Sentence, judge, judge_stopped

TWO = {"worker": ["a:2222", "b:2222"]}


def tf_config(role: str, index: int, cluster: dict[str, list[str]] = TWO) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


# --- settings


def test_flags_before_the_program_are_ours_and_all_after_it_are_the_programs():
    got = parse(["--port", "9500", "--memory-growth", "train.py", "--port", "1"], {})
    assert got.settings.port == 9500
    assert got.settings.memory_growth
    assert got.program is not None
    assert (got.program.name, got.program.arguments) == ("train.py", ("--port", "1"))


def test_a_module_and_the_double_dash():
    assert parse(["-m", "pkg.train", "-x"], {}).program == parse(["--", "-m", "pkg.train", "-x"], {}).program


def test_a_flag_wins_over_its_variable():
    environment = {"DTJ_RESTARTS": "7", "DTJ_START_SECONDS": "2"}
    settings = parse(["--restarts", "1", "x.py"], environment).settings
    assert (settings.restarts, settings.start_seconds) == (1, 2.0)


def test_a_service_called_dtj_does_not_set_the_port():
    assert parse(["x.py"], {"DTJ_PORT": "tcp://10.0.0.1:80"}).settings.port == 9401


@pytest.mark.parametrize("words", [["--bogus", "x.py"], ["--port", "0", "x.py"], ["--restarts"], ["-m"]])
def test_a_wrong_flag_is_one_sentence(words: list[str]):
    with pytest.raises(PreflightFailed):
        parse(words, {})


def test_the_termination_message_has_its_place_also_where_other_flags_are_wrong():
    assert termination_log(["--bogus", "--termination-log=a", "x.py", "--termination-log", "its"], {}) == Path("a")
    assert termination_log(["--termination-log", "b", "--port"], {"DTJ_TERMINATION_LOG": "c"}) == Path("b")
    assert termination_log(["x.py"], {"DTJ_TERMINATION_LOG": "c"}) == Path("c")
    assert termination_log(["x.py", "--termination-log", "its"], {}) is None


# --- program text


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('os.environ["TF_USE_LEGACY_KERAS"] = "1"', {"TF_USE_LEGACY_KERAS"}),
        ("os.environ.setdefault('XLA_FLAGS', '')", {"XLA_FLAGS"}),
        ('os.putenv("KERAS_BACKEND", "jax")', {"KERAS_BACKEND"}),
        ('os.environ["TF_CONFIG"] = "{}"', set()),
        ('os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"', set()),
        ('x = os.environ.get("TF_CONFIG")', set()),
    ],
)
def test_variables_that_tensorflow_reads_at_import_are_found(text: str, names: set[str]):
    assert variables_set_for_import(text) == names


@pytest.mark.parametrize("name", ["dtj", "dtj_trainer"])
def test_a_program_of_ours_is_known_by_its_import(name: str):
    assert uses_us(f"import {name}\n")
    assert uses_us(f"import {name} as train\n")
    assert uses_us(f"try:\n    import {name}.data\nexcept ImportError:\n    pass\n")
    assert uses_us(f"x = 1\nfrom {name} import fit\n")
    assert uses_us(f"from {name}.data import Pipeline\n")


@pytest.mark.parametrize(
    "text", ['"""dtj"""', '"""dtj_trainer"""', "import dtj_operator", "from dtjs import fit", "dtj = 1"]
)
def test_a_program_that_only_names_us_is_not_of_ours(text: str):
    assert not uses_us(f"{text}\n")


# --- place


def test_the_leader_is_the_chief_or_else_worker_0():
    assert read_tf_config(tf_config("worker", 1)).leader == Task("worker", 0)
    both = {"chief": ["c:1"], "worker": ["a:1"]}
    assert read_tf_config(tf_config("worker", 0, both)).leader == Task("chief", 0)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"cluster": 3}', '{"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 4}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "a"}}', '{"cluster": {"worker": "a:1"}}',
     '{"cluster": {"worker": ["a:1"]}, "task": {"type": "boss", "index": 0}}'],
)  # fmt: skip
def test_a_broken_tf_config_is_one_sentence(text: str):
    with pytest.raises(PreflightFailed, match=r"TF_CONFIG.*; "):
        read_tf_config({"TF_CONFIG": text})


def test_parts_by_strategy_and_role():
    cluster = {"chief": ["c:1"], "worker": ["w:1"], "ps": ["p:1"]}
    ps_job = {"DTJ_STRATEGY": '{"type": "ParameterServer"}'}
    assert read_place({**tf_config("chief", 0, cluster), **ps_job}, 1).part is Part.COORDINATOR
    assert read_place({**tf_config("worker", 0, cluster), **ps_job}, 1).part is Part.SERVER
    assert read_place(tf_config("worker", 1), 1).part is Part.MEMBER
    assert read_place(tf_config("worker", 0, {"worker": ["a:1"]}), 1).part is Part.ALONE
    assert read_place(tf_config("evaluator", 0), 1).part is Part.ALONE
    assert read_place({}, 1).part is Part.ALONE


def test_over_several_hosts_of_a_tpu_slice_the_chief_runs_the_program_and_the_workers_serve():
    on_tpus = {"DTJ_STRATEGY": '{"type": "TPU"}'}
    several = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}

    def place(role: str, cluster: dict[str, list[str]], index: int = 0) -> Place:
        return read_place({**tf_config(role, index, cluster), **on_tpus}, 1)

    assert place("chief", several).part is Part.COORDINATOR
    assert place("chief", several).peers == (Task("worker", 0), Task("worker", 1))
    assert place("worker", several, 1).part is Part.SERVER
    assert place("evaluator", {**several, "evaluator": ["e:1"]}).part is Part.ALONE
    assert place("chief", {"chief": ["c:1"]}).part is Part.ALONE
    assert place("worker", {"worker": ["a:1"]}).part is Part.ALONE
    assert slice_environment(place("worker", several, 1)) == {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"}
    assert slice_environment(place("chief", several)) == {}
    with pytest.raises(PreflightFailed, match=r"TPU over 2 workers needs a chief.*; add spec\.replicaSpecs\.chief"):
        place("worker", {"worker": ["a:1", "b:1"]})


def test_peers_are_asked_on_the_port_that_was_given_for_their_address():
    place = read_place({**tf_config("worker", 0), "DTJ_PEER_PORTS": '{"b:2222": 7}'}, 9401)
    assert place.endpoints == {Task("worker", 1): ("b", 7)}


# --- progress


def stepping(seconds: float = 1.0, until: int = 10) -> Progress:
    progress = Progress()
    progress.child_started(0.0)
    for step in range(1, until + 1):
        progress.hear(StepsDone(step, 1, seconds), float(step), 0.0)
    return progress


def test_ready_means_steps_within_three_medians_and_five_seconds():
    progress = stepping(seconds=1.0)
    assert progress.alive(10.0 + 8.0)
    assert not progress.alive(10.0 + 8.1)


def test_nothing_is_ready_before_the_first_step_or_after_the_loss_of_the_child():
    progress = Progress()
    progress.child_started(0.0)
    assert not progress.alive(0.1)
    progress = stepping()
    progress.child_lost()
    assert not progress.alive(10.0)


def test_a_save_counts_as_life():
    progress = stepping()
    progress.hear(PhaseChanged("save"), 10.0, 0.0)
    assert progress.alive(500.0)
    assert not progress.stalled(500.0, None, 900.0)


def test_an_evaluator_is_ready_while_it_waits_and_while_it_evaluates_its_first_checkpoint():
    progress = Progress()
    progress.child_started(0.0)
    for phase in ("wait", "validate"):
        progress.hear(PhaseChanged(phase), 1.0, 0.0)
        assert progress.alive(500.0)


def test_the_checkpoint_that_a_new_pod_goes_on_from_is_its_last_one():
    progress, metrics = Progress(), Metrics()
    for listener in (lambda message: progress.hear(message, 1.0, 0.0), metrics.hear):
        listener(CheckpointRestored(40))
    assert progress.status()["lastCheckpointStep"] == 40
    page = metrics.text(peers_ready=0, standby_ready=False, child=None)
    assert "dtj_last_checkpoint_step 40" in page
    assert "dtj_checkpoint_seconds_count 0" in page


def test_a_save_that_does_not_end_in_its_time_hangs_also_beside_steps():
    progress = stepping()
    progress.hear(CheckpointStarted(10), 10.0, 0.0)
    progress.hear(StepsDone(11, 1, 1.0), 610.0, 0.0)
    assert not progress.save_hangs(610.0, 600.0)
    assert progress.save_hangs(610.1, 600.0)
    progress.hear(CheckpointSaved(10, 1.0), 611.0, 0.0)
    assert not progress.save_hangs(2000.0, 600.0)
    progress.hear(CheckpointStarted(12), 2000.0, 0.0)
    progress.child_lost()
    assert not progress.save_hangs(3000.0, 600.0)


def test_what_comes_after_the_last_step_has_the_time_of_a_save_and_is_no_stall_before():
    progress = stepping(seconds=1.0)
    progress.hear(PhaseChanged("finish"), 100.0, 0.0)
    assert progress.alive(999.0)
    assert not progress.stalled(999.0, 2.0, 900.0)
    assert not progress.finish_hangs(1000.0, 900.0)
    assert progress.finish_hangs(1000.1, 900.0)
    progress.hear(PhaseChanged("done"), 1001.0, 0.0)
    assert not progress.finish_hangs(9999.0, 900.0)


def test_a_stall_is_ten_medians_and_thirty_seconds_or_what_was_said():
    progress = stepping(seconds=1.0)
    assert not progress.stalled(50.0, None, 900.0)
    assert progress.stalled(50.1, None, 900.0)
    assert progress.stalled(12.1, 2.0, 900.0)


def test_metrics_of_an_epoch_that_was_owed_are_no_step_and_the_first_one_still_has_its_time():
    progress = Progress()
    progress.child_started(0.0)
    progress.hear(PhaseChanged("build", 1.0), 1.0, 0.0)
    progress.hear(StepsDone(10, 0, 0.0, metrics={"val_loss": 1.0}), 2.0, 0.0)
    assert progress.status()["metrics"] == {"val_loss": 1.0}
    assert not progress.stalled(900.0, None, 900.0)


def test_a_first_step_that_does_not_come_is_a_stall_once_all_was_ready_for_it():
    progress = Progress()
    progress.child_started(0.0)
    assert not progress.stalled(2000.0, 2.0, 900.0)  # perhaps a program that reports no steps
    progress.hear(PhaseChanged("build", 1.0), 100.0, 0.0)
    assert not progress.stalled(1000.0, 2.0, 900.0)
    assert progress.stalled(1000.1, 2.0, 900.0)
    progress.hear(PhaseChanged("wait"), 200.0, 0.0)
    assert not progress.stalled(2000.0, 2.0, 900.0)


def test_a_standby_that_took_over_and_makes_no_step_is_a_stall():
    progress = stepping(seconds=1.0)
    progress.child_lost()
    progress.child_started(100.0)
    progress.taken_over()
    assert not progress.stalled(1000.0, 2.0, 900.0)
    assert progress.stalled(1000.1, 2.0, 900.0)
    assert not progress.stalled(1000.1, 3600.0, 900.0)


# --- termination message


def test_the_termination_message_has_the_contracts_keys_and_fits():
    metrics = {f"metric_{i}": float(i) for i in range(400)}
    for ending in (Ending("done", 0), Ending("user-error", 1, 'ä\n"' * 3000, metrics={"loss": 0.1}),
                   Ending("user-error", 1, "x" * 9000, metrics=metrics)):  # fmt: skip
        wire = ending.wire()
        assert len(wire) <= 4000
        assert tuple(json.loads(wire)) == TERMINATION_KEYS
    assert json.loads(Ending("user-error", 1, "y" * 9000, metrics={"a": 1.0}).wire())["metrics"] == {"a": 1.0}


# --- cgroup


def test_out_of_memory_kills_are_counted_in_both_versions(tmp_path: Path):
    membership = tmp_path / "membership"
    membership.write_text("4:memory:/pod\n0::/\n")
    (tmp_path / "memory" / "pod").mkdir(parents=True)
    (tmp_path / "memory" / "pod" / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
    assert Cgroup(tmp_path, membership).oom_kills() == 3
    membership.write_text("0::/\n")
    two = tmp_path / "two"
    two.mkdir()
    (two / "memory.events").write_text("oom 2\noom_kill 2\n")
    (two / "cpu.max").write_text("50000 100000\n")
    assert Cgroup(two, membership).oom_kills() == 2
    assert Cgroup(two, membership).cpus() == 1


def test_free_memory_counts_the_files_that_the_kernel_can_drop(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    for name, value in (("memory.max", "1000000"), ("memory.current", "900000")):
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 300000\n")
    assert Cgroup(tmp_path, membership).free_bytes() == 400000


def test_whether_the_kernel_kills_all_of_a_container_together(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    assert not Cgroup(tmp_path, membership).falls_together()
    for value, together in (("0", False), ("1", True)):
        (tmp_path / "memory.oom.group").write_text(f"{value}\n")
        assert Cgroup(tmp_path, membership).falls_together() is together


def test_where_no_limit_is_set_what_the_machine_has_left_is_free(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    (tmp_path / "memory.max").write_text("max\n")
    free = Cgroup(tmp_path, membership).free_bytes()
    assert free is not None
    assert free > 0


# --- judgement


def child(oom_kills: int = 0, said: ProcessExit | None = None) -> Child:
    return Child(1, Connection(None), oom_kills, pid=1, released_at=0.0, exit=said)


def judged(
    one: Child, status: int, oom_kills: int = 0, *, serves: bool = False, member: bool = True
) -> tuple[str, str, int]:
    verdict = judge(one, status, oom_kills=oom_kills, serves=serves, member=member)
    if isinstance(verdict, Restart):
        return verdict.cause, verdict.spent.exit_class, verdict.spent.exit_code
    return "end", str(verdict.exit_class), verdict.exit_code


def test_what_the_end_of_a_child_means():
    exited = lambda code: code << 8  # noqa: E731
    lost = ProcessExit("peer-lost", 75, "m")
    assert judged(child(said=lost), exited(75)) == ("peer-lost", "peer-lost", 75)
    assert judged(child(), exited(75)) == ("peer-lost", "peer-lost", 75)
    assert judged(child(), signal.SIGKILL) == ("killed", "killed", 137)
    assert judged(child(), signal.SIGSEGV) == ("killed", "killed", 139)
    assert judged(child(oom_kills=1), signal.SIGKILL, oom_kills=2) == ("end", "out-of-memory", 137)
    assert judged(child(), exited(3)) == ("end", "user-error", 3)
    assert judged(child(), exited(0)) == ("end", "done", 0)
    assert judged(child(), exited(0), serves=True)[0] == "killed"
    fenced = ProcessExit("fenced", 75)
    assert judged(child(said=fenced), exited(75)) == ("end", "fenced", 75)
    done = ProcessExit("done", 0)
    assert judged(child(said=done), signal.SIGSEGV) == ("end", "done", 0)
    wrong = ProcessExit("user-error", 3)
    assert judged(child(said=wrong), signal.SIGABRT) == ("end", "user-error", 3)
    saved = ProcessExit("preempted", 42, "m")
    assert judged(child(said=saved), exited(42)) == ("preempted", "peer-lost", 75)
    assert judged(child(said=saved), exited(42), member=False) == ("end", "preempted", 42)
    stalled = child()
    stalled.sentence = Sentence.STALLED
    assert judged(stalled, signal.SIGKILL) == ("stalled", "stalled", 75)
    saving = child()
    saving.sentence = Sentence.SAVING
    assert judged(saving, signal.SIGKILL) == ("stalled", "stalled", 75)
    finishing = child()
    finishing.sentence = Sentence.FINISHING
    assert judged(finishing, signal.SIGKILL) == ("stalled", "stalled", 75)


def test_what_the_end_of_a_child_means_after_sigterm():
    done = ProcessExit("done", 0)
    preempted = ProcessExit("preempted", 42)
    assert judge_stopped(child(said=done), managed=True).exit_code == 0
    assert judge_stopped(child(said=replace(done, explicit=True)), managed=False).exit_code == 143
    assert judge_stopped(child(said=preempted), managed=True).exit_code == 42
    assert judge_stopped(child(), managed=False).exit_code == 143


def test_sigterm_between_two_processes_does_not_say_that_nothing_was_trained():
    place = read_place({}, 1)
    for progress, says in ((Progress(), "before anything was trained"), (stepping(until=3), "after step 3")):
        departure = Departure(Settings(), place, Rendezvous(place.identity(), ()), progress)
        departure.stop(None, 0.0)
        assert departure.ending is not None
        assert departure.ending.exit_code == 143
        assert departure.ending.message.endswith(says)


def test_metrics_without_a_value_are_named():
    page = Metrics().text(peers_ready=0, standby_ready=False, child=None)
    for name in (
        "dtj_loss",
        "dtj_learning_rate",
        "dtj_last_checkpoint_step",
        "dtj_restarts_total",
        "dtj_bringup_seconds",
    ):
        assert f"# TYPE {name} " in page


def test_the_program_is_told_what_a_flag_has_set():
    told = child_environment(Settings(stall_seconds=7.0, start_seconds=9.0), read_place({}, 1), {})
    assert environment.read(told).stall_seconds == 7.0
    assert environment.read(told).start_seconds == 9.0
    assert environment.read(told).devices.threads is None  # so that a deterministic program gets one


def test_libtpu_is_loaded_only_where_there_are_chips_or_the_user_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICES", tmp_path)

    def loads(told: dict[str, str]) -> str | None:
        return child_environment(Settings(), read_place({}, 1), told).get("TPU_LOAD_LIBRARY")

    assert loads({}) == loads({"TPU_NAME": "grpc://10.0.0.1:8470"}) == "0"
    assert loads({"TPU_LOAD_LIBRARY": "1"}) == "1"
    (tmp_path / "accel0").touch()
    assert loads({}) is None


def test_tensorflow_is_not_imported_ahead_where_that_would_claim_a_tpu(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICES", tmp_path)
    assert may_preload("auto", None, "OneDevice", {})
    assert not may_preload("auto", None, "TPU", {})
    assert not may_preload("auto", None, "None", {"TPU_NAME": "local"})
    (tmp_path / "vfio").mkdir()
    (tmp_path / "vfio" / "0").touch()
    assert may_preload("auto", None, "OneDevice", {})
    assert not may_preload("auto", None, "OneDevice", {"TPU_WORKER_ID": "0"})


def test_a_checkpoint_setting_of_the_wrong_kind_is_one_sentence():
    with pytest.raises(PreflightFailed, match=r"DTJ_CHECKPOINT holds .*'soon'.*; "):
        environment.read({"DTJ_CHECKPOINT": '{"directory": "/ckpt", "everySteps": "soon"}'})


def test_the_metrics_page_names_what_the_contract_names():
    metrics = Metrics()
    metrics.step_seconds.observe(0.02, 10)
    metrics.restarts["peer-lost"] += 1
    metrics.bringup["import"] = 1.5
    metrics.loss = 0.25
    page = metrics.text(peers_ready=1, standby_ready=True, child=os.getpid())
    for line in ('dtj_step_seconds_bucket{le="0.025"} 10', "dtj_step_seconds_count 10", "dtj_loss 0.25",
                 'dtj_restarts_total{cause="peer-lost"} 1', 'dtj_bringup_seconds{phase="import"} 1.5',
                 "dtj_stalls_total 0", "dtj_steps_total 0", "dtj_examples_total 0"):  # fmt: skip
        assert line in page.splitlines()
