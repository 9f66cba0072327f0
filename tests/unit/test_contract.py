"""Operator and trainer keep the same written contract, each in a copy of its own."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, EnumMeta
from types import ModuleType

from dtj_operator.api import trainer_contract as operators
from dtj_trainer import contract as trainers


def members(words: Iterable[Enum]) -> dict[str, object]:
    return {member.name: member.value for member in words}


def public(module: ModuleType) -> dict[str, object]:
    return {
        name: members(value) if isinstance(value, EnumMeta) else value
        for name, value in vars(module).items()
        if name.isupper() or (isinstance(value, EnumMeta) and value.__module__ == module.__name__)
    }


def test_what_both_name_is_equal():
    ours, theirs = public(operators), public(trainers)
    differing = {n: (ours[n], theirs[n]) for n in ours.keys() & theirs.keys() if ours[n] != theirs[n]}
    assert not differing


def test_the_trainer_knows_everything_the_operator_relies_on():
    assert public(operators).keys() <= public(trainers).keys()
