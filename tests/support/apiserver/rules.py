"""The CEL rules of a CRD (x-kubernetes-validations).

The real server is the judge of the rules; this module says which there are and where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Object


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules of one schema."""

    @classmethod
    def of(cls, _root: Object) -> RuleBook:
        """The rules found in a schema."""
        return cls()

    def broken(self, _new: Object, _old: Object | None) -> list[tuple[str, str]]:
        """Pairs of field and message for every rule that does not hold."""
        return []
