"""One program of the corpus under each strategy trains what Keras trains; `make corpus` runs all of them."""

from pathlib import Path

import pytest

from tests.corpus import jobs
from tests.corpus.catalogue import programs
from tests.corpus.jobs import STRATEGIES, Kind, workers

pytestmark = pytest.mark.trainer
SECONDS = 120


@pytest.fixture(scope="module")
def plain_results(tmp_path_factory) -> Path:
    return Path(tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(
    ("name", "kind", "kill"),
    [
        ("siamese_contrastive", workers(1), False),
        ("multi_input_tickets", workers(2), False),
        ("continued_training", workers(2), True),
        ("evaluate_and_export", STRATEGIES["Mirrored"], False),
        ("siamese_contrastive", STRATEGIES["CentralStorage"], False),
        ("weighted_quantiles", STRATEGIES["ParameterServer"], False),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else str(value),
)
def test_a_program_trains_what_keras_trains(name, kind, kill, plain_results, tmp_path):
    (program,) = programs([name])
    wanted = jobs.plain(program, plain_results)
    run = jobs.run_job(program, wanted, tmp_path / "job", kind, kill=kill, limit=SECONDS)
    assert run.outcome == "equal", run.said
