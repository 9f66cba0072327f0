from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dtj_operator.domain.snapshot import TroubleKind
from dtj_operator.kube.errors import Refused, from_answer
from dtj_operator.runtime.source import Key
from dtj_operator.runtime.troubles import Ledger, classify

KEY = Key("default", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (422, {"message": "spec.containers: Required value"}, TroubleKind.INVALID),
        (400, {"message": "strict decoding error"}, TroubleKind.INVALID),
        (403, {"message": 'pods "x" is forbidden: exceeded quota: q'}, TroubleKind.QUOTA_EXCEEDED),
        (403, {"message": "violates PodSecurity"}, TroubleKind.POD_REFUSED),
        (
            403,
            {"message": "unable to create new content", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
            TroubleKind.NAMESPACE_TERMINATING,
        ),
    ],
)
def test_a_refusal_is_told_by_what_the_server_says(code, body, kind):
    error = from_answer(code, body, wrote=True, retry_after=None)
    assert isinstance(error, Refused)
    assert classify(error) is kind


def test_retries_come_after_5_seconds_then_ever_later_up_to_60():
    ledger = Ledger()
    waits = []
    now = NOW
    for _ in range(6):
        ledger.note(KEY, TroubleKind.QUOTA_EXCEEDED, "p", "no", 1, now)
        retry = ledger.next_retry(KEY)
        assert retry is not None
        waits.append((retry - now).total_seconds())
        now = retry
    assert waits == [5, 10, 20, 40, 60, 60]


def test_an_invalid_template_is_tried_again_every_60_seconds_or_on_a_new_generation():
    ledger = Ledger()
    ledger.note(KEY, TroubleKind.INVALID, "p", "no", 1, NOW)
    assert ledger.blocked(KEY, "p", 1, after(59))
    assert not ledger.blocked(KEY, "p", 1, after(60))
    assert not ledger.blocked(KEY, "p", 2, after(1))


def test_a_used_up_quota_stops_the_peers_but_a_taken_name_does_not():
    ledger = Ledger()
    ledger.note(KEY, TroubleKind.NAME_TAKEN, "p", "foreign", 1, NOW)
    assert ledger.blocked(KEY, "p", 1, after(1))
    assert not ledger.blocked(KEY, "q", 1, after(1))
    ledger.note(KEY, TroubleKind.QUOTA_EXCEEDED, "p", "full", 1, NOW)
    assert ledger.blocked(KEY, "q", 1, after(1))


def test_trouble_is_kept_until_that_write_succeeds():
    ledger = Ledger()
    ledger.note(KEY, TroubleKind.QUOTA_EXCEEDED, "p", "full", 1, NOW)
    ledger.note(KEY, TroubleKind.QUOTA_EXCEEDED, "p", "full", 1, after(5))
    (trouble,) = ledger.of(KEY)
    assert trouble.since == NOW
    assert ledger.clear(KEY, "p")
    assert ledger.of(KEY) == ()


def test_trouble_with_what_is_no_longer_wanted_is_forgotten_when_due():
    ledger = Ledger()
    ledger.note(KEY, TroubleKind.INVALID, "p", "no", 1, NOW)
    assert not ledger.prune(KEY, set(), after(30))
    assert ledger.prune(KEY, set(), after(60))
    assert ledger.next_retry(KEY) is None
