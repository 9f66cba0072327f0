from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.controller.blocked_write_tracker import BlockedWriteTracker, blocked_reason
from dtj_operator.kube.errors import Refused, error_from_response
from dtj_operator.reconcile.state.blocked_writes import BlockedReason

KEY = NamespacedName("default", "train")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (422, {"message": "spec.containers: Required value"}, BlockedReason.INVALID),
        (400, {"message": "strict decoding error"}, BlockedReason.INVALID),
        (403, {"message": 'pods "x" is forbidden: exceeded quota: q'}, BlockedReason.QUOTA_EXCEEDED),
        (403, {"message": "violates PodSecurity"}, BlockedReason.POD_REFUSED),
        (
            403,
            {"message": "unable to create new content", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
            BlockedReason.NAMESPACE_TERMINATING,
        ),
    ],
)
def test_a_refusal_is_told_by_what_the_server_says(code, body, kind):
    error = error_from_response(code, body, idempotent=False, retry_after=None)
    assert isinstance(error, Refused)
    assert blocked_reason(error) is kind


def test_trouble_is_kept_until_that_write_succeeds():
    tracker = BlockedWriteTracker()
    tracker.record(KEY, "uid", BlockedReason.QUOTA_EXCEEDED, "p", "full", 1, NOW)
    tracker.record(KEY, "uid", BlockedReason.QUOTA_EXCEEDED, "p", "full", 1, after(5))
    (blocked,) = tracker.of(KEY, "uid")
    assert blocked.since == NOW
    assert tracker.clear(KEY, "uid", "p")
    assert tracker.of(KEY, "uid") == ()


def test_trouble_with_what_is_no_longer_wanted_is_forgotten_when_due():
    tracker = BlockedWriteTracker()
    tracker.record(KEY, "uid", BlockedReason.INVALID, "p", "no", 1, NOW)
    assert not tracker.prune(KEY, "uid", set(), after(30))
    assert tracker.prune(KEY, "uid", set(), after(60))
    assert tracker.of(KEY, "uid") == ()


def test_trouble_that_waits_for_another_one_is_not_forgotten_meanwhile():
    tracker = BlockedWriteTracker()
    tracker.record(KEY, "uid", BlockedReason.QUOTA_EXCEEDED, "p", "full", 1, NOW)
    tracker.record(KEY, "uid", BlockedReason.QUOTA_EXCEEDED, "q", "full", 1, after(2))
    assert not tracker.prune(KEY, "uid", set(), after(5))
    assert tracker.prune(KEY, "uid", {"q"}, after(7))
    assert [blocked.target for blocked in tracker.of(KEY, "uid")] == ["q"]


def test_a_job_inherits_no_trouble_from_the_one_that_had_its_name():
    tracker = BlockedWriteTracker()
    tracker.record(KEY, "former", BlockedReason.INVALID, "p", "no", 1, NOW)
    assert tracker.of(KEY, "uid") == ()
    assert not tracker.clear(KEY, "uid", "p")
    tracker.record(KEY, "uid", BlockedReason.INVALID, "q", "no", 1, after(1))
    assert [blocked.target for blocked in tracker.of(KEY, "uid")] == ["q"]
