"""How a container ends."""

import signal

from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.supervisor.membership import Member, Membership
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.shutdown import Shutdown


def test_sigterm_between_two_processes_does_not_say_that_nothing_was_trained():
    stepped = Progress()
    stepped.apply(StepsDone(3, 1, 1.0), 3.0, 0.0)
    for progress, says in ((Progress(), "before anything was trained"), (stepped, "after step 3")):
        membership = Membership(Member("", 0, Task("worker", 0), "a", ""), ())
        shutdown = Shutdown(Settings(), TaskMode.SINGLE, membership, progress, leader=Task("worker", 0))
        shutdown.stop(None, signal.SIGTERM, 0.0)
        assert shutdown.exit_status is not None
        assert shutdown.exit_status.exit_code == 143
        assert shutdown.exit_status.message.endswith(says)
