from __future__ import annotations

from typing import Any

import pytest

from dtj_operator.cache.indexer import Indexer
from dtj_operator.cache.namespaced_name import NamespacedName

KEY = NamespacedName("default", "train")


def thing(name: str, version: int, *, uid: str = "", value: int = 0, namespace: str = "default") -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


@pytest.fixture
def told() -> list[NamespacedName]:
    return []


@pytest.fixture
def indexer(told: list[NamespacedName]) -> Indexer[int]:
    return Indexer(
        transform=lambda raw: int(raw["value"]),
        key=lambda raw: NamespacedName(raw["metadata"]["namespace"], "train"),
        on_change=told.append,
        changed=lambda old, new: old != new,
    )


def test_the_higher_version_wins_whatever_comes_last(indexer, told):
    indexer.upsert(thing("a", 7, value=2))
    indexer.upsert(thing("a", 5, value=1))
    assert list(indexer.values(KEY)) == [2]
    assert told == [KEY]


def test_a_change_that_does_not_matter_is_kept_but_not_told(indexer, told):
    indexer.upsert(thing("a", 1, value=1))
    indexer.upsert(thing("a", 2, value=1))
    assert indexer.get(KEY, "a").resource_version == 2
    assert told == [KEY]


def test_a_late_answer_does_not_bring_a_deleted_object_back(indexer):
    indexer.upsert(thing("a", 1))
    indexer.delete(thing("a", 3))
    indexer.upsert(thing("a", 2))
    assert list(indexer.values(KEY)) == []


def test_what_the_server_has_answered_to_be_gone_stays_gone(indexer):
    indexer.upsert(thing("a", 1))
    indexer.remove("a")
    indexer.upsert(thing("a", 9))
    assert list(indexer.values(KEY)) == []


def test_what_was_out_of_sight_without_its_label_is_seen_again(indexer):
    indexer.upsert(thing("a", 1))
    indexer.upsert(thing("b", 2))
    indexer.delete(thing("a", 3))
    indexer.remove_missing(None, set(), "4")
    indexer.upsert(thing("a", 5, value=5))
    indexer.upsert(thing("b", 6, value=6))
    assert list(indexer.values(KEY)) == [5, 6]


def test_the_deletion_of_a_former_incarnation_leaves_the_new_one(indexer):
    indexer.upsert(thing("a", 1, uid="old"))
    indexer.upsert(thing("a", 5, uid="new", value=5))
    indexer.delete(thing("a", 4, uid="old"))
    assert list(indexer.values(KEY)) == [5]


def test_an_object_that_changes_its_job_leaves_the_former_one():
    told: list[NamespacedName] = []
    indexer: Indexer[int] = Indexer(
        transform=lambda raw: int(raw["value"]),
        key=lambda raw: NamespacedName("default", raw["job"]) if raw["job"] else None,
        on_change=told.append,
        changed=lambda old, new: old != new,
    )
    for version, name in enumerate(["one", "two", "two", "one", ""], 1):
        indexer.upsert(thing("a", version) | {"job": name})
    indexer.upsert(thing("a", 3) | {"job": "two"})
    assert [key.name for key in told] == ["one", "one", "two", "two", "one", "one"]
    assert (len(indexer), indexer.list_keys()) == (0, [])


def test_what_the_watch_does_not_see_is_restored_and_no_list_says_that_it_is_gone():
    indexer: Indexer[int] = Indexer(
        transform=lambda raw: int(raw["value"]),
        key=lambda _raw: KEY,
        on_change=lambda _key: None,
        changed=lambda old, new: old != new,
        watched=lambda raw: raw["value"] == 0,
    )
    indexer.upsert(thing("a", 1))
    indexer.delete(thing("a", 3))
    indexer.restore(thing("a", 3, value=1))
    assert indexer.list_unwatched() == [(KEY, "a", "a")]
    indexer.remove_missing(None, set(), "9")
    assert list(indexer.values(KEY)) == [1]


def test_a_list_reveals_what_was_deleted_unseen_but_not_what_is_newer_than_it(indexer, told):
    indexer.upsert(thing("stays", 1))
    indexer.upsert(thing("gone", 2))
    indexer.upsert(thing("created-meanwhile", 50))
    told.clear()
    indexer.remove_missing(None, {"stays"}, "40")
    assert {held for held in ("stays", "gone", "created-meanwhile") if indexer.get(KEY, held)} == {
        "stays",
        "created-meanwhile",
    }
    assert told == [KEY]


def test_a_list_of_one_namespace_says_nothing_about_others(indexer):
    indexer.upsert(thing("a", 1, namespace="other"))
    indexer.remove_missing("default", set(), "40")
    assert len(indexer) == 1
