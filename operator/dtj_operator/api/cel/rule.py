"""One rule in CEL, by which the API server refuses objects of a CRD."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One entry of x-kubernetes-validations."""

    rule: str
    message: str
    path: str = ""
    """The fieldPath, relative to the place of the rule."""
    message_expression: str = ""
    """The messageExpression, which replaces `message`."""

    def wire(self) -> dict[str, str]:
        """Return the rule as the CRD has it."""
        result = {"rule": self.rule, "message": self.message}
        if self.path:
            result["fieldPath"] = self.path
        if self.message_expression:
            result["messageExpression"] = self.message_expression
        return result
