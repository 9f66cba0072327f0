from __future__ import annotations

from typing import Any

import pytest

from dtj_operator.cache.indexer import Shelf
from dtj_operator.cache.namespaced_name import Key

KEY = Key("default", "train")


def thing(name: str, version: int, *, uid: str = "", value: int = 0, namespace: str = "default") -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name, "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": metadata, "value": value}


@pytest.fixture
def told() -> list[Key]:
    return []


@pytest.fixture
def shelf(told: list[Key]) -> Shelf[int]:
    return Shelf(
        view=lambda raw: int(raw["value"]),
        key=lambda raw: Key(raw["metadata"]["namespace"], "train"),
        changed=told.append,
        matters=lambda old, new: old != new,
    )


def test_the_higher_version_wins_whatever_comes_last(shelf, told):
    shelf.upsert(thing("a", 7, value=2))
    shelf.upsert(thing("a", 5, value=1))
    assert list(shelf.values(KEY)) == [2]
    assert told == [KEY]


def test_a_change_that_does_not_matter_is_kept_but_not_told(shelf, told):
    shelf.upsert(thing("a", 1, value=1))
    shelf.upsert(thing("a", 2, value=1))
    assert shelf.held(KEY, "a").version == 2
    assert told == [KEY]


def test_a_late_answer_does_not_bring_a_deleted_object_back(shelf):
    shelf.upsert(thing("a", 1))
    shelf.delete(thing("a", 3))
    shelf.upsert(thing("a", 2))
    assert list(shelf.values(KEY)) == []


def test_what_the_server_has_answered_to_be_gone_stays_gone(shelf):
    shelf.upsert(thing("a", 1))
    shelf.remove(KEY, "a", "a")
    shelf.upsert(thing("a", 9))
    assert list(shelf.values(KEY)) == []


def test_what_was_out_of_sight_without_its_label_is_seen_again(shelf):
    shelf.upsert(thing("a", 1))
    shelf.upsert(thing("b", 2))
    shelf.delete(thing("a", 3))
    shelf.retain(None, set(), "4")
    shelf.upsert(thing("a", 5, value=5))
    shelf.upsert(thing("b", 6, value=6))
    assert list(shelf.values(KEY)) == [5, 6]


def test_the_deletion_of_a_former_incarnation_leaves_the_new_one(shelf):
    shelf.upsert(thing("a", 1, uid="old"))
    shelf.upsert(thing("a", 5, uid="new", value=5))
    shelf.delete(thing("a", 4, uid="old"))
    assert list(shelf.values(KEY)) == [5]


def test_a_list_reveals_what_was_deleted_unseen_but_not_what_is_newer_than_it(shelf, told):
    shelf.upsert(thing("stays", 1))
    shelf.upsert(thing("gone", 2))
    shelf.upsert(thing("created-meanwhile", 50))
    told.clear()
    shelf.retain(None, {"stays"}, "40")
    assert {held for held in ("stays", "gone", "created-meanwhile") if shelf.held(KEY, held)} == {
        "stays",
        "created-meanwhile",
    }
    assert told == [KEY]


def test_a_list_of_one_namespace_says_nothing_about_others(shelf):
    shelf.upsert(thing("a", 1, namespace="other"))
    shelf.retain("default", set(), "40")
    assert len(shelf) == 1
