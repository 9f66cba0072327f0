"""docs/reference/dtj-run.md names every flag, every metric and every path, and no others."""

import re
from pathlib import Path

from dtj_trainer.ipc.messages import CheckpointSaved, PhaseChanged, Report, StepsDone
from dtj_trainer.supervisor.http import server
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.settings import _READERS
from tests.unit.supervisor.statuses import page_of

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "dtj-run.md").read_text()


def test_the_page_has_every_flag():
    written = set(re.findall(r"^\| `--([a-z-]+)", PAGE, re.MULTILINE))
    assert written == {name.replace("_", "-") for name in _READERS}


def test_the_page_has_every_metric():
    metrics = Metrics()
    messages: tuple[Report, ...] = (
        PhaseChanged("build", 1.0),
        CheckpointSaved(1, 1.0),
        StepsDone(1, steps=1, seconds=1.0, loss=1.0, learning_rate=0.1),
    )
    for message in messages:
        metrics.apply(message)
    metrics.restarts["killed"] += 1
    text = page_of(metrics)
    exposed = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    rows = [line.split("|")[1] for line in PAGE.splitlines() if re.match(r"\| `(dtj|process)_", line)]
    assert {name for row in rows for name in re.findall(r"`(\w+)", row)} == exposed


def test_the_page_has_every_path():
    source = Path(server.__file__).read_text()
    served = set(re.findall(r'case "(/\w+)"', source))
    assert served == set(re.findall(r"^\| `(?:POST )?(/\w+)`", PAGE, re.MULTILINE))
