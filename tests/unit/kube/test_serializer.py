"""JSON as API servers send it, and as pods do."""

from __future__ import annotations

import pytest

from dtj_operator.kube import serializer


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [1, 300, 900])
def test_what_is_read_can_be_written(levels):
    assert serializer.dumps(serializer.loads(nested(levels))).replace(b" ", b"") == nested(levels)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", nested(100_000), b'{"a":' * 100_000], ids=range(6))
def test_what_is_no_object_or_has_no_end_to_its_levels_is_told_by_one_error(text):
    with pytest.raises(ValueError, match=r"object|nested|Expecting|decode"):
        serializer.loads(text)
