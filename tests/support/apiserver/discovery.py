"""Discovery: /version, /api, /apis and the lists of resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.apiserver.kinds import Kind, Object

VERSION: Object = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.4",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
ACCESS_REVIEWS: Object = {
    "name": "selfsubjectaccessreviews",
    "singularName": "selfsubjectaccessreview",
    "namespaced": False,
    "kind": "SelfSubjectAccessReview",
    "verbs": ["create"],
}
AUTHORIZATION = "authorization.k8s.io"


def core_versions() -> Object:
    """Return the answer to /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(kinds: Sequence[Kind]) -> Object:
    """Return the answer to /apis."""
    names = dict.fromkeys((kind.group, kind.version) for kind in kinds if kind.group)
    names[AUTHORIZATION, "v1"] = None
    listed = []
    for group, version in names:
        known = {"groupVersion": f"{group}/{version}", "version": version}
        listed.append({"name": group, "versions": [known], "preferredVersion": known})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def resources(kinds: Sequence[Kind], group: str, version: str) -> Object | None:
    """Return the APIResourceList of one group and version; None if it is not served."""
    listed: list[Object] = []
    for kind in kinds:
        if (kind.group, kind.version) != (group, version):
            continue
        listed.append(
            {
                "name": kind.plural,
                "singularName": kind.kind.lower(),
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": list(kind.verbs),
                "shortNames": list(kind.short_names),
                "categories": list(kind.categories),
            }
        )
        listed += [
            {
                "name": f"{kind.plural}/{name}",
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": ["get", "patch", "update"],
            }
            for name in kind.subresources
        ]
    if (group, version) == (AUTHORIZATION, "v1"):
        listed.append(ACCESS_REVIEWS)
    if not listed:
        return None
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}
