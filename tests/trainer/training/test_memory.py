"""What callbacks remember, and what was drawn at random, comes back with a checkpoint."""

import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize(
    ("workers", "settings", "interruption"),
    [
        (1, {"everySteps": 3}, {"TEST_DIE_AT": "11"}),  # in an epoch
        (1, {"everySteps": 4}, {"TEST_DIE_AT": "26"}),  # saved where an epoch ends
        (1, {}, {"TEST_LEAVE_AT": "22"}),
        (2, {"everySteps": 3}, {"TEST_DIE_AT": "23"}),
    ],
)
def test_callbacks_and_random_states_go_on_where_they_were(workers, settings, interruption, tmp_path):
    undisturbed = launch.run_workers(workers, "remembering.py", str(tmp_path / "undisturbed"))
    assert [each.code for each in undisturbed] == [0] * workers, undisturbed[-1].output
    assert undisturbed[0].said["stopping"] == [3.0, 4, 7, 3]
    environment = launch.checkpoint(tmp_path / "state", **settings)
    folder = str(tmp_path / "files")
    ended = launch.run_workers(workers, "remembering.py", folder, environment={**environment, **interruption})
    assert ended[-1].code in {-9, 42}, ended[-1].output
    resumed = launch.run_workers(workers, "remembering.py", folder, environment=environment)
    for before, after in zip(undisturbed, resumed, strict=True):
        assert after.code == 0, after.output
        assert after.said["resumed_from"] > 4
        for same in ("epochs", "rate", "stopping", "seen", "total", "best"):
            assert after.said[same] == before.said[same], same
        assert after.said["weights"] == pytest.approx(before.said["weights"], rel=1e-4, abs=1e-6)
        if after.said["log"] is not None:
            rows, wanted = ([row.split(",") for row in each.said["log"].splitlines()] for each in (after, before))
            assert rows[0] == wanted[0]
            assert [row[0] for row in rows] == [row[0] for row in wanted]
            numbers = [[float(value) for value in row if value != "NA"] for row in rows[1:]]
            assert numbers == [pytest.approx([float(v) for v in row if v != "NA"], rel=1e-3) for row in wanted[1:]]
    again = launch.run_workers(workers, "remembering.py", folder, environment=environment)
    assert [each.said["stopping"] for each in again] == [[3.0, 4, 7, 3]] * workers
    assert again[0].said["seen"] == undisturbed[0].said["seen"]
