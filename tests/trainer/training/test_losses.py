"""Each kind of loss trains on several replicas what Keras' own fit trains; `make equality` has all ways to divide."""

import pytest

from tests.equality import __main__ as equality
from tests.equality.columns import COLUMNS, train

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize("column", [column for column in COLUMNS if column.name in {"2 workers", "2 devices"}])
def test_each_kind_of_loss_trains_what_keras_trains(column):
    wanted, trained = train(column)
    assert isinstance(trained, dict), trained
    found = {kind: equality.difference(wanted[kind], trained.get(kind)) for kind in wanted}
    assert {kind: cell for kind, cell in found.items() if not equality.equal(kind, cell)} == {}
