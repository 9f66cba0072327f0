"""Authorization: bearer tokens and RBAC rules. A token without rules is a cluster administrator's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.apiserver.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.apiserver.kinds import Kind, Object


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules (rbac.authorization.k8s.io PolicyRules) for one user; namespace None = cluster-wide."""

    rules: tuple[Object, ...]
    namespace: str | None = None


@dataclass(slots=True)
class Access:
    """The authorizer: users by token, and what they may do."""

    users: dict[str, str] = field(default_factory=dict)
    """User name by bearer token; tokens that are not in it are administrators'."""
    grants: dict[str, list[Grant]] = field(default_factory=dict)
    """Grants by user name."""

    def grant(self, token: str, user: str, rules: Sequence[Object], namespace: str | None = None) -> None:
        """Make `token` that of `user`, and grant `rules` in addition to earlier grants."""
        self.users[token] = user
        self.grants.setdefault(user, []).append(Grant(tuple(rules), namespace))

    def user(self, token: str) -> str:
        """Return the user name of a token."""
        return self.users.get(token, "system:admin")

    def allows(self, token: str, verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
        """Tell whether RBAC allows this; `resource` may be `pods/status`."""
        user = self.users.get(token)
        if user is None:
            return True
        return any(
            _covers(rule, verb, group, resource, name)
            for grant in self.grants.get(user, [])
            if grant.namespace in (None, namespace)
            for rule in grant.rules
        )

    def demand(self, token: str, verb: str, kind: Kind, subresource: str, namespace: str, name: str) -> None:
        """Raise a 403 unless RBAC allows this."""
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        if self.allows(token, verb, kind.group, resource, namespace, name):
            return
        place = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        subject = f'{kind.qualified} "{name}"' if name else kind.qualified
        message = (
            f'{subject} is forbidden: User "{self.user(token)}" cannot {verb} resource "{resource}" '
            f'in API group "{kind.group}" {place}'
        )
        raise Refusal(403, "Forbidden", message, details={"name": name, "group": kind.group, "kind": kind.plural})


def _covers(rule: Object, verb: str, group: str, resource: str, name: str) -> bool:
    names = rule.get("resourceNames") or []
    return (
        bool({verb, "*"} & set(rule.get("verbs") or []))
        and bool({group, "*"} & set(rule.get("apiGroups") or []))
        and bool({resource, "*"} & set(rule.get("resources") or []))
        and (not names or name in names)
    )
