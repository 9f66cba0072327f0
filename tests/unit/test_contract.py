"""Operator and trainer keep the same written contract, each in a copy of its own."""

from __future__ import annotations

from enum import EnumMeta
from types import ModuleType

from dtj_operator.api import contract as operators
from dtj_trainer import contract as trainers


def public(module: ModuleType) -> dict[str, object]:
    return {
        name: {member.name: member.value for member in value} if isinstance(value, EnumMeta) else value
        for name, value in vars(module).items()
        if name.isupper() or (isinstance(value, EnumMeta) and value.__module__ == module.__name__)
    }


def test_what_both_name_is_equal():
    ours, theirs = public(operators), public(trainers)
    differing = {n: (ours[n], theirs[n]) for n in ours.keys() & theirs.keys() if ours[n] != theirs[n]}
    assert not differing


def test_the_trainer_knows_everything_the_operator_relies_on():
    assert public(operators).keys() <= public(trainers).keys()
