"""A job whose checkpoints lie where no pod has a path to: on a real HDFS."""

import pytest

from dtj_trainer.state.folder import folder, read_json
from tests.trainer.loop import launch

pytestmark = pytest.mark.trainer


def test_a_job_is_killed_resumes_and_is_done_where_all_files_lie_on_hdfs(hadoop):
    directory = hadoop.uri("/checkpoints/job")
    environment = {**launch.checkpoint(directory, everySteps=3, keep=2), "DTJ_UID": "u"}
    killed = launch.run("resume.py", environment={**environment, "TEST_DIE_AT": "8"})
    assert killed.code == -9, killed.output
    resumed = launch.run("resume.py", environment={**environment, "DTJ_ATTEMPT": "1"})
    assert resumed.code == 0, resumed.output
    assert resumed.said["resumed_from"] in {3, 6}
    assert resumed.said["digest"] == launch.run("resume.py").said["digest"]
    place = folder(directory)
    kept = [f"ckpt-{step}.{part}" for step in (39, 40) for part in ("data-00000-of-00001", "index")]
    assert sorted(place.names()) == ["checkpoint", *kept, "done.json", "job.json", "logs", "owner.json"]
    assert (read_json(place, "done.json") or {})["step"] == 40
    assert (read_json(place, "job.json") or {})["step"] == 40
    assert folder(f"{directory}/logs").names()
    again = launch.run("resume.py", environment={**environment, "DTJ_ATTEMPT": "2"})
    assert again.last_word == "dtj: finished at step 40 already"
