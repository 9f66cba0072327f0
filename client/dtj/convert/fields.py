"""Reads an object of a manifest field by field: each with its type, and none unmentioned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtj.convert.conversion import Conversion

INTEGER_MAX = 2_147_483_647


class Fields:
    """The fields of one object. Each is read by its type; those that nobody has read are named at the end.

    A field that is null counts as missing, as it does for an API server.
    """

    def __init__(self, conversion: Conversion, path: str, given: object) -> None:
        """Raises ConversionError if `given` is no object."""
        self._conversion, self.path = conversion, path
        if not isinstance(given, Mapping):
            raise self._wrong(path, given, "an object")
        for name in given:
            if not isinstance(name, str):
                raise conversion.error(f"{path or 'the document'} has the key {one_line(str(name))}: put it in quotes")
        self._given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._read: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return whether the field is there."""
        return name in self._given

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields that are there."""
        return iter(self._given)

    def at(self, name: str) -> str:
        """Return the path of a field, for people."""
        return f"{self.path}.{one_line(name)}" if self.path else one_line(name)

    def string(self, name: str) -> str:
        """Read a string; empty where it is missing."""
        found = self._get(name, str, "a string")
        return "" if found is None else str(found)

    def choice(self, name: str, *words: str) -> str:
        """Read one of these words; empty where it is missing."""
        found = self.string(name)
        if found and found not in words:
            raise self.error(name, f"is {one_line(found)}: use {one_of(words)}")
        return found

    def integer(self, name: str, most: int = INTEGER_MAX) -> int | None:
        """Read an integer from 0 to `most`."""
        found = self._get(name, int, "an integer")
        if found is None:
            return None
        if not 0 <= found <= most:
            raise self.error(name, f"is {found}: use a number from 0 to {most:,}")
        return int(found)

    def boolean(self, name: str) -> bool | None:
        """Read a boolean."""
        found = self._get(name, bool, "a boolean")
        return None if found is None else bool(found)

    def object_at(self, name: str) -> Fields:
        """Read an object; one without fields where it is missing."""
        self._read.add(name)
        return Fields(self._conversion, self.at(name), self._given.get(name, {}))

    def objects_at(self, name: str) -> list[Fields]:
        """Read a list of objects; empty where it is missing."""
        found = self._get(name, list, "a list")
        return [Fields(self._conversion, f"{self.at(name)}[{index}]", one) for index, one in enumerate(found or ())]

    def strings(self, name: str) -> list[str]:
        """Read a list of strings; empty where it is missing."""
        found = self._get(name, list, "a list") or []
        for index, one in enumerate(found):
            if not isinstance(one, str):
                raise self._wrong(f"{self.at(name)}[{index}]", one, "a string")
        return list(found)

    def kept(self) -> dict[str, Any]:
        """Return all fields as they are, in their order."""
        self._read.update(self._given)
        return dict(self._given)

    def leave_out(self, name: str, instead: str) -> None:
        """Tell that a field is left out, if it is there, and what holds instead."""
        if name in self._given:
            self._read.add(name)
            value = self._given[name]
            self._conversion.note(f"{self.at(name)}{shown(value)} is left out: {instead}.")

    def name_rest(self) -> None:
        """Tell of each field that nobody has read."""
        for name in self._given:
            if name not in self._read:
                self._conversion.note(f"{self.at(name)} has no counterpart and is left out.")

    def error(self, name: str, sentence: str) -> Exception:
        """Return the error that a field cannot be converted."""
        return self._conversion.error(f"{self.at(name)} {sentence}")

    def _get(self, name: str, kind: type, wanted: str) -> Any:
        self._read.add(name)
        value = self._given.get(name)
        if value is not None and type(value) is not kind:
            raise self._wrong(self.at(name), value, wanted)
        return value

    def _wrong(self, path: str, value: object, wanted: str) -> Exception:
        place, kind = path or "the document", kind_of(value)
        return self._conversion.error(f"{place} is {kind}{shown(value)}: make it {wanted}")


def shown(value: object) -> str:
    """Return a value in brackets, for people; nothing for an object, a list and what is empty."""
    return "" if value is None or value == "" or isinstance(value, Mapping | list) else f" ({one_line(str(value))})"


def one_line(text: str) -> str:
    """Return a name or a value as it is if it reads as one word or line, else in quotes with escapes."""
    return text if text.isprintable() and text.strip() == text != "" else json.dumps(text)


def kind_of(value: object) -> str:
    """Return what a value is in YAML and JSON, with its article."""
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list"}
    return kinds.get(type(value), "an object")


def one_of(words: Sequence[str]) -> str:
    """Return words as "a, b or c"."""
    return " or ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)
