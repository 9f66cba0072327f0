"""One supervised program: how it ends, and what the supervisor says of it. No TensorFlow where none is needed."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from dtj_trainer.cluster import accelerators
from dtj_trainer.contract import TERMINATION_KEYS, job_hash
from dtj_trainer.supervisor.process_pool import is_dead
from tests.support import source_roots
from tests.trainer.supervisor.conftest import Launcher, until

pytestmark = pytest.mark.trainer


@pytest.fixture
def launch(launch_anew: Launcher) -> Launcher:
    """As in a container: what the supervisor is before its zygote has imported anything is part of it."""
    return launch_anew


def script(folder: Path, text: str) -> str:
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def test_a_missing_program_is_one_sentence(launch: Launcher):
    pod = launch.start("nowhere.py")
    assert pod.wait() == 1
    assert pod.last_line == pod.termination()["message"]
    assert pod.termination()["class"] == "preflight-failed"
    assert "nowhere.py" in pod.last_line


def test_a_wrong_flag_is_one_sentence(launch: Launcher):
    pod = launch.start("--bogus", "reporter.py")
    assert pod.wait() == 1
    assert pod.termination()["class"] == "preflight-failed"
    assert "--bogus" in pod.last_line


@pytest.mark.skipif(accelerators.gpu_there(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_one_sentence_whatever_the_program(launch: Launcher):
    pod = launch.start("--gpus", "1", "reporter.py")
    assert pod.wait() == 1
    assert pod.said == []
    assert pod.termination()["class"] == "preflight-failed"
    assert pod.last_line.startswith("1 GPU was asked for and there is none here; ")


def test_a_taken_port_is_one_sentence(launch: Launcher):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        pod = launch.start("reporter.py", "1", http=taken.getsockname()[1])
        assert pod.wait() == 1
    assert pod.termination()["class"] == "preflight-failed"
    assert "--port" in pod.last_line


def test_an_error_in_the_supervisor_itself_leaves_a_message_and_a_code_of_its_own(launch: Launcher, tmp_path: Path):
    text = (
        "import os, socket, time\n"
        "end = socket.socket(fileno=int(os.environ['DTJ_LINK_FD']))\n"
        """end.send(b'{"type": "StepsDone", "step": 1, "steps": 1, "seconds": "no number"}')\n"""
        "time.sleep(600)\n"
    )
    pod = launch.start("--preload", "off", script(tmp_path, text))
    assert pod.wait() == 170
    told = pod.termination()
    assert (told["class"], told["exitCode"], told["exception"]) == ("killed", 170, "TypeError")
    assert told["message"] == pod.last_line
    assert pod.last_line.startswith("dtj-run itself failed: TypeError: ")
    assert "Traceback" in pod.log


def test_a_second_dtj_run_in_a_container_leaves_the_termination_message_alone(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "100000")
    until(lambda: pod.said, "the program did not begin")
    message = {"DTJ_TERMINATION_LOG": str(pod.folder / "termination")}
    for words, says in ((["chekpoint"], "use dtj-run checkpoint"), (["--bogus"], "--bogus"), (["reporter.py"], "use")):
        second = launch.start(*words, environment=message)
        assert second.wait() == 2
        assert second.log.startswith("dtj: ")
        assert (second.log.count("\n"), says in second.log) == (1, True), second.log
    pod.process.terminate()
    assert pod.wait() == 42
    assert pod.termination()["class"] == "preempted"


def test_an_exception_is_a_line_for_people_and_below_it_the_traceback(launch: Launcher, tmp_path: Path):
    program = script(tmp_path, "def f():\n    raise ValueError('bad news')\nf()\n")
    pod = launch.start("--preload", "off", program)
    assert pod.wait() == 1
    ending = pod.termination()
    assert (ending["class"], ending["exitCode"], ending["exception"]) == ("user-error", 1, "ValueError")
    assert pod.last_line == ending["message"]
    assert "bad news" in pod.last_line
    above, below = pod.log.split(pod.last_line, 1)
    assert "Traceback" not in above
    assert "Traceback" in below
    assert "supervisor" not in below


@pytest.mark.parametrize(("text", "code"), [("import sys; sys.exit(3)", 3), ("import os; os._exit(7)", 7)])
def test_the_programs_own_exit_code_is_passed_on(launch: Launcher, tmp_path: Path, text: str, code: int):
    pod = launch.start("--preload", "off", script(tmp_path, text))
    assert pod.wait() == code
    assert pod.termination()["class"] == "user-error"
    assert pod.termination()["exitCode"] == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("import os, sys; os.close(2); sys.exit(3)", 3),
        ("import sys; sys.stderr = None; raise ValueError('bad news')", 1),
        ("import sys; sys.stdout.close(); sys.exit(3)", 3),
    ],
)
def test_a_program_that_has_closed_its_streams_ends_as_it_would_and_the_line_is_said(
    launch: Launcher, tmp_path: Path, text: str, code: int
):
    pod = launch.start("--preload", "off", "--restarts", "0", script(tmp_path, text))
    assert pod.wait() == code
    ending = pod.termination()
    assert (ending["class"], ending["exitCode"]) == ("user-error", code)
    assert pod.last_line == ending["message"]


def test_a_program_sees_what_it_would_see_without_us(launch: Launcher, tmp_path: Path):
    text = (
        "import sys, atexit, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "never_shut_down = ThreadPoolExecutor()\n"
        "never_shut_down.submit(int)\n"
        "atexit.register(lambda: print('SAY atexit', flush=True))\n"
        "print('SAY', sys.argv[1:], __name__, __file__ == sys.argv[0], sys.path[0], flush=True)\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('SAY thread', flush=True))).start()\n"
    )
    pod = launch.start("--preload", "off", "--", script(tmp_path, text), "a", "--port", "1")
    assert pod.wait() == 0
    assert pod.said == [f"['a', '--port', '1'] __main__ True {tmp_path}", "thread", "atexit"]
    assert pod.termination()["class"] == "done"


def test_memory_that_a_thread_frees_is_there_for_its_next_tensor(launch: Launcher, tmp_path: Path):
    text = (
        "import ctypes, resource, threading\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype = ctypes.c_void_p\n"
        "def faults():\n"
        "    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt\n"
        "def tensor(size=16 << 20):\n"
        "    at = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))\n"
        "    ctypes.memset(at, 1, size)\n"
        "    libc.free(at)\n"
        "def steps():\n"
        "    tensor()\n"
        "    before = faults()\n"
        "    for _ in range(10):\n"
        "        tensor()\n"
        "    print('SAY', faults() - before, flush=True)\n"
        "threading.Thread(target=steps).start()\n"
    )
    pod = launch.start("--preload", "off", script(tmp_path, text))
    assert pod.wait() == 0
    (faults,) = map(int, pod.said)
    assert faults < 100  # pages; a tensor has 4096


def test_what_a_program_does_at_its_exit_takes_its_time_and_is_no_stall(launch: Launcher, tmp_path: Path):
    text = (
        "import atexit, multiprocessing, time\n"
        "from dtj_trainer.ipc.messages import StepsDone\n"
        "from dtj_trainer.ipc.reporter import process_reporter\n"
        "def upload(name):\n"
        "    time.sleep(5.5)\n"
        "    print('SAY', name, flush=True)\n"
        "process_reporter().steps_done(StepsDone(1, steps=1, seconds=0.01))\n"
        "multiprocessing.get_context('fork').Process(target=upload, args=('process',)).start()\n"
        "atexit.register(upload, 'function')\n"
    )
    pod = launch.start("--preload", "off", "--stall-seconds", "2", "--restarts", "0", script(tmp_path, text))
    assert pod.wait() == 0
    assert sorted(pod.said) == ["function", "process"]


@pytest.mark.parametrize(("text", "code"), [("", 0), ("import sys; sys.exit(3)", 3)])
def test_what_a_program_does_at_its_exit_comes_to_an_end(launch: Launcher, tmp_path: Path, text: str, code: int):
    pod = launch.start(
        "--preload", "off", "--save-seconds", "0.5",
        script(tmp_path, f"import atexit, time\natexit.register(time.sleep, 60)\n{text}"),
    )  # fmt: skip
    assert pod.wait(20) == code
    assert pod.termination()["restarts"] == 0


def test_sigterm_leaves_a_program_that_is_done_the_grace_for_what_it_does_at_its_exit(launch: Launcher, tmp_path: Path):
    text = "import atexit, time\natexit.register(lambda: (print('SAY done', flush=True), time.sleep(60)))\n"
    pod = launch.start("--preload", "off", "--grace-seconds", "0.5", script(tmp_path, text))
    until(lambda: pod.said, "the program is not done")
    pod.process.terminate()
    assert pod.wait(20) == 0
    assert pod.termination()["class"] == "done"


@pytest.mark.parametrize(("text", "code"), [("", 0), ("import sys; sys.exit(3)", 3)])
def test_a_crash_of_what_runs_at_exit_changes_nothing_of_how_the_program_ended(
    launch: Launcher, tmp_path: Path, text: str, code: int
):
    pod = launch.start("--preload", "off", script(tmp_path, f"import atexit, os\natexit.register(os.abort)\n{text}"))
    assert pod.wait() == code
    assert pod.termination()["restarts"] == 0


def test_a_killed_program_is_restarted_in_place_with_backoff_until_the_restarts_are_spent(
    launch: Launcher, tmp_path: Path
):
    text = "import os, signal; print('SAY begin', os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    pod = launch.start("--preload", "off", "--restarts", "3", script(tmp_path, text))
    assert pod.wait() == 137
    assert time.monotonic() - pod.started > 0.25 + 0.5 + 1.0
    assert len(pod.said) == 4
    ending = pod.termination()
    assert (ending["class"], ending["restarts"]) == ("killed", 3)


def test_progress_is_served_over_http(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "2000", environment={"DTJ_UID": "u", "DTJ_ATTEMPT": "2"})
    until(lambda: len(pod.said) == 1, "the program did not begin")
    until(lambda: pod.get("/readyz")[0] == 200, "never ready")
    status = pod.status()
    assert set(status) >= {"step", "totalSteps", "stepsPerSecond", "loss", "role", "index", "attempt", "job", "phase"}
    assert (status["role"], status["index"], status["attempt"], status["job"]) == ("worker", 0, 2, job_hash("u"))
    assert pod.get("/healthz")[0] == 200
    page = pod.get("/metrics")[1]
    assert 'dtj_bringup_seconds{phase="cluster"} 0.1' in page
    assert "dtj_steps_total" in page
    assert pod.get("/nowhere")[0] == 404


def test_a_checkpoint_is_asked_for_by_the_right_job_once_a_minute(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "2000", environment={"DTJ_UID": "u"})
    until(lambda: len(pod.said) == 1, "the program did not begin")
    assert pod.ask("/checkpoint", "other") == 403
    assert pod.ask("/checkpoint", "u") == 202
    assert pod.ask("/checkpoint", "u") == 429
    until(lambda: pod.status()["lastCheckpointStep"], "no checkpoint")


def test_a_checkpoint_asked_for_between_two_processes_is_made_by_the_next(launch: Launcher, tmp_path: Path):
    births, reporter = tmp_path / "births", Path(__file__).parent / "programs" / "reporter.py"
    text = (
        f"import os, pathlib, runpy, signal\nbirths = pathlib.Path({str(births)!r})\n"
        "births.write_text((births.read_text() if births.exists() else '') + '.')\n"
        "if len(births.read_text()) < 4: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"runpy.run_path({str(reporter)!r}, run_name='__main__')\n"
    )
    pod = launch.start("--preload", "off", script(tmp_path, text), "2000", environment={"DTJ_UID": "u"})
    until(births.exists, "the program did not begin")
    until(lambda: pod.status()["restarts"] == 3, "it is not restarted")  # and for a second there is no process
    assert pod.ask("/checkpoint", "u") == 202
    assert pod.said == []
    until(lambda: pod.status()["lastCheckpointStep"], "no checkpoint")


def test_sigterm_lets_a_program_of_ours_save_and_leave(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "2000")
    until(lambda: pod.said and pod.get("/readyz")[0] == 200, "never ready")
    pod.process.terminate()
    assert pod.wait() == 42
    ending = pod.termination()
    assert (ending["class"], ending["exitCode"]) == ("preempted", 42)
    assert ending["step"] == ending["checkpointStep"]


def test_a_save_that_has_begun_is_cut_short_neither_by_a_second_sigterm_nor_by_the_end_of_our_grace(launch: Launcher):
    pod = launch.start("--preload", "off", "--grace-seconds", "0.5", "reporter.py", "2000", "slow")
    until(lambda: pod.said and pod.get("/readyz")[0] == 200, "never ready")
    pod.process.terminate()
    until(lambda: pod.said[-1] == "saving", "it does not save")
    pod.process.terminate()
    assert pod.wait() == 42
    ending = pod.termination()
    assert ending["step"] == ending["checkpointStep"]


def test_while_a_program_saves_to_leave_nothing_else_is_kept(launch: Launcher):
    pod = launch.start("reporter.py", "2000", "slow")
    until(lambda: pod.said and pod.get("/readyz")[0] == 200, "never ready")
    (zygote,) = pod.children()
    pod.process.terminate()
    until(lambda: pod.said[-1] == "saving", "it does not save")
    until(lambda: pod.children() == [pod.training_process()], "the zygote is there still")
    assert pod.wait() == 42
    assert pod.termination()["step"] == pod.termination()["checkpointStep"]
    assert zygote != pod.training_process()


def test_a_sigterm_while_the_supervisor_is_still_being_imported_is_heeded(launch: Launcher, tmp_path: Path):
    """PID 1 would never get it without a handler, and the pod stay for all of its grace."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'dtj_trainer.supervisor.main':\n"
        "            os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    pod = launch.start("reporter.py", "1", environment={"PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{tmp_path}"})
    assert pod.wait() == 143
    assert pod.said == []
    assert pod.termination()["class"] == "preempted"


def test_sigterm_ends_a_plain_program_that_does_not_react(launch: Launcher, tmp_path: Path):
    text = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('SAY begin 0', flush=True)\n"
        "time.sleep(60)\n"
    )
    pod = launch.start("--preload", "off", "--grace-seconds", "1", script(tmp_path, text))
    until(lambda: pod.said, "the program did not begin")
    asked = time.monotonic()
    pod.process.terminate()
    assert pod.wait() == 143
    assert time.monotonic() - asked < 5
    assert pod.termination()["class"] == "preempted"


def test_a_stall_is_restarted_in_place_and_then_given_up(launch: Launcher):
    pod = launch.start("--preload", "off", "--restarts", "1", "--stall-seconds", "1", "reporter.py", "5", "stall")
    assert pod.wait() == 75
    ending = pod.termination()
    assert (ending["class"], ending["restarts"]) == ("stalled", 1)


def test_the_programs_exit_message_is_the_termination_message(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "5")
    assert pod.wait() == 0
    told = pod.termination()
    assert set(told) == set(TERMINATION_KEYS)
    expected = {
        "class": "done",
        "exitCode": 0,
        "step": 5,
        "checkpointStep": None,
        "metrics": {"accuracy": 0.5},
        "restarts": 0,
        "exception": "",
        "message": "",
    }
    assert {name: told[name] for name in expected} == expected


def test_the_zygote_has_tensorflow_ready_and_its_death_does_not_end_training(launch: Launcher):
    pod = launch.start("reporter.py", "2000")
    until(lambda: pod.said, "the program did not begin")
    assert pod.said[0].split()[-1] == "True"
    zygote = int(Path(f"/proc/{pod.training_process()}/stat").read_text().rsplit(")", 1)[1].split()[1])
    assert zygote != pod.process.pid
    os.kill(zygote, signal.SIGKILL)
    step = pod.status()["step"]
    until(lambda: pod.status()["step"] != step, "training stopped with the zygote")
    os.kill(pod.training_process(), signal.SIGKILL)
    until(lambda: len(pod.said) == 2, "not started again after the zygote's death")
    assert pod.status()["restarts"] == 1


def test_what_trains_ends_with_its_supervisor_also_without_a_zygote(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "2000")
    until(lambda: pod.said, "the program did not begin")
    pod.process.kill()
    until(lambda: is_dead(pod.training_process()), "it trains on", seconds=10)


def test_a_zygote_that_dies_when_it_is_to_fork_does_not_leave_the_pod_waiting(launch: Launcher, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        f"mark = {str(tmp_path / 'mark')!r}\n"
        "def die():\n"
        "    if 'zygote' in sys.argv[0] and not os.path.exists(mark):\n"
        "        open(mark, 'w').close()\n"
        "        os.kill(os.getpid(), 9)\n"
        "os.register_at_fork(before=die)\n"
    )
    pod = launch.start("reporter.py", "3", environment={"PYTHONPATH": f"{source_roots.TRAINER}{os.pathsep}{tmp_path}"})
    assert pod.wait() == 0, pod.log
    assert (tmp_path / "mark").exists()
    assert pod.termination()["restarts"] == 1


def test_the_supervisor_itself_loads_no_tensorflow(launch: Launcher):
    pod = launch.start("--preload", "off", "reporter.py", "2000")
    until(lambda: pod.said, "the program did not begin")
    mapped = Path(f"/proc/{pod.process.pid}/maps").read_text()
    assert "tensorflow" not in mapped
    assert "numpy" not in mapped


def test_what_is_seldom_used_is_not_imported_before_it_is(launch: Launcher, tmp_path: Path):
    text = (
        "import sys\n"
        "seldom = {'sklearn', 'matplotlib', 'scipy.stats', 'pandas', 'tensorboard'}\n"
        "print('SAY', 'tensorflow' in sys.modules, *sorted(seldom & set(sys.modules)), flush=True)\n"
        "import keras\n"
        "print('SAY', keras.wrappers.SKLearnClassifier.__name__, callable(keras.visualization.plot_image_gallery))\n"
    )
    pod = launch.start(script(tmp_path, text))
    assert pod.wait() == 0
    assert pod.said == ["True", "SKLearnClassifier True"]


def test_how_a_process_ends_that_the_program_has_forked_says_nothing_of_the_program(launch: Launcher, tmp_path: Path):
    text = (
        "import os, sys\n"
        "for end in (0, 'SAY gone'):\n"
        "    if os.fork() == 0:\n        sys.exit(end)\n"
        "    print('SAY', os.waitstatus_to_exitcode(os.wait()[1]), flush=True)\n"
        "os._exit(3)\n"
    )
    pod = launch.start("--preload", "off", script(tmp_path, text))
    assert pod.wait() == 3
    assert pod.said == ["0", "gone", "1"]
    assert pod.termination()["class"] == "user-error"


def test_a_program_whose_fork_has_ended_saves_on_sigterm(launch: Launcher, tmp_path: Path):
    reporter = Path(__file__).parent / "programs" / "reporter.py"
    text = (
        "import os, runpy, sys\n"
        "if os.fork() == 0:\n    sys.exit()\n"
        "os.wait()\n"
        f"runpy.run_path({str(reporter)!r}, run_name='__main__')\n"
    )
    pod = launch.start("--preload", "off", script(tmp_path, text), "2000")
    until(lambda: pod.said and pod.get("/readyz")[0] == 200, "never ready")
    pod.process.terminate()
    assert pod.wait() == 42
