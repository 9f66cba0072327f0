"""Errors of the API server, named by what the caller should do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BAD_REQUEST = 400
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
CONFLICT = 409
GONE = 410
UNPROCESSABLE = 422
TOO_MANY = 429
SERVER_ERRORS = 500


MAX_MESSAGE_LENGTH = 1024
"""Characters that are kept of the server's words. They go into logs and status, and an admission policy may send any
number of them."""


class KubeError(Exception):
    """A request that did not succeed. `code` is the HTTP status, 0 when there was no response."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason


class Retry(KubeError):
    """A request that changed nothing; the same request may succeed later."""

    def __init__(self, message: str, *, code: int = 0, reason: str = "", after: float | None = None) -> None:
        super().__init__(message, code=code, reason=reason)
        self.after = after
        """Seconds the server asked to wait (Retry-After)."""


class Fenced(KubeError):
    """A write that was not sent, because another process may be the leader by now."""


class OutcomeUnknown(KubeError):
    """A write that may have been carried out: read the object again before deciding anything."""

    @property
    def webhook(self) -> bool:
        """Whether an admission webhook failed. Webhooks are called before an object is stored, so nothing was."""
        return "failed calling webhook" in self.message


class Conflict(KubeError):
    """The object has changed since it was read, or is another one of the same name: read it again."""


class AlreadyExists(KubeError):
    """An object of that name exists: read it and check its owner."""


class NotFound(KubeError):
    """A request that names no existing object, namespace or kind."""


class Gone(KubeError):
    """The resourceVersion or continue token is too old: list again."""


class Unauthorized(KubeError):
    """The server does not accept the credentials."""


class Refused(KubeError):
    """The server refused a valid request; the same request is refused again until somebody changes something."""

    @property
    def invalid(self) -> bool:
        """Whether the object itself is wrong (400, 422) rather than forbidden here and now (403)."""
        return self.code in (BAD_REQUEST, UNPROCESSABLE)

    @property
    def quota(self) -> bool:
        """Whether a ResourceQuota refused it."""
        return self.code == FORBIDDEN and "exceeded quota" in self.message

    @property
    def namespace_terminating(self) -> bool:
        """Whether the namespace is being deleted."""
        return self.code == FORBIDDEN and (
            self.reason == "NamespaceTerminating" or "is being terminated" in self.message
        )


def error_from_response(
    code: int, body: Mapping[str, Any], *, idempotent: bool, retry_after: float | None
) -> KubeError:
    """Return the error for a response of 400 or above.

    `body` is the server's Status object, or empty. `idempotent`: the request may be sent twice.
    """
    message = str(body.get("message") or f"the API server answered {code}")[:MAX_MESSAGE_LENGTH]
    reason = str(body.get("reason") or "")
    if code == CONFLICT:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
        return kind(message, code=code, reason=reason)
    if code == TOO_MANY:
        return Retry(message, code=code, reason=reason, after=retry_after)
    if code >= SERVER_ERRORS:
        # A server error after a write says nothing about whether etcd has it.
        if idempotent:
            return Retry(message, code=code, reason=reason, after=retry_after)
        return OutcomeUnknown(message, code=code, reason=reason)
    if code == FORBIDDEN:
        causes = (body.get("details") or {}).get("causes") or ()
        if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
            reason = "NamespaceTerminating"
        return Refused(message, code=code, reason=reason)
    kinds: dict[int, type[KubeError]] = {
        UNAUTHORIZED: Unauthorized,
        NOT_FOUND: NotFound,
        METHOD_NOT_ALLOWED: Refused,
        GONE: Gone,
    }
    return kinds.get(code, Refused)(message, code=code, reason=reason)
