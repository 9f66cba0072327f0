"""Names that are none."""

import pytest

from dtj_trainer.cluster import probes


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_what_can_be_no_name_does_not_resolve(host: str):
    assert not probes.resolves(host)
