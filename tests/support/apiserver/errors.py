"""Refusals, in the API server's own words and format (metav1.Status)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Kind, Object


class Refusal(Exception):  # noqa: N818 - it is an answer, not a mistake of this program
    """An answer that is not a success. `status()` is its body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Object | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`code` is the HTTP status, `reason` the machine-readable word of metav1.Status."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.headers = headers or {}

    def status(self) -> Object:
        """Return the metav1.Status."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body


def _details(kind: Kind, name: str, **more: object) -> Object:
    details: Object = {"name": name, "kind": kind.plural}
    if kind.group:
        details["group"] = kind.group
    return {**details, **more}


def not_found(kind: Kind, name: str) -> Refusal:
    """Return a 404."""
    return Refusal(404, "NotFound", f'{kind.qualified} "{name}" not found', details=_details(kind, name))


def already_exists(kind: Kind, name: str) -> Refusal:
    """Return the 409 of a create."""
    return Refusal(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', details=_details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> Refusal:
    """Return the 409 of a stale write."""
    said = why or "the object has been modified; please apply your changes to the latest version and try again"
    return Refusal(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {kind.qualified} "{name}": {said}',
        details=_details(kind, name),
    )


def invalid(kind: Kind, name: str, causes: list[tuple[str, str]]) -> Refusal:
    """Return a 422; `causes` are pairs of field and message."""
    said = [f"{field}: {message}" for field, message in causes]
    text = said[0] if len(said) == 1 else "[" + ", ".join(said) + "]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    listed = [{"reason": "FieldValueInvalid", "message": message, "field": field} for field, message in causes]
    return Refusal(
        422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details=_details(kind, name, causes=listed)
    )


def bad_request(message: str) -> Refusal:
    """Return a 400."""
    return Refusal(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str, cause: str | None = None) -> Refusal:
    """Return a 403; `cause` is a machine-readable cause such as NamespaceTerminating."""
    more: Object = {"causes": [{"reason": cause, "message": why}]} if cause else {}
    subject = f'{kind.qualified} "{name}"' if name else kind.qualified
    return Refusal(403, "Forbidden", f"{subject} is forbidden: {why}", details=_details(kind, name, **more))


def expired(message: str) -> Refusal:
    """Return a 410: the resourceVersion or the continue token is older than the history."""
    return Refusal(410, "Expired", message)
