"""Checks before the operator starts: the API server answers, the CRD exists, the rights are granted."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dtj_operator.cache.node_monitor import LEASE_NAMESPACE
from dtj_operator.kube.errors import KubeError, NotFound, OutcomeUnknown, Refused, Retry, Unauthorized
from dtj_operator.kube.resources import ACCESS_REVIEWS, EVENTS, JOBS, LEASES, NETWORK_POLICIES, NODES, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.kube.rest_config import RestConfig

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
LEFT_OUT_SECONDS = 60.0
"""Between looks at a namespace in which there are no rights."""

T = TypeVar("T")
Rights = tuple[tuple["GroupVersionResource", str, tuple[str, ...]], ...]

NEEDED: Rights = (
    (JOBS, "", ("get", "list", "watch", "delete")),
    (JOBS, "status", ("patch",)),
    (PODS, "", ("get", "list", "watch", "create", "delete")),
    (SERVICES, "", ("get", "list", "watch", "create", "delete")),
    (EVENTS, "", ("create", "patch")),
)
POLICY_RIGHTS: Rights = ((NETWORK_POLICIES, "", ("get", "create")),)
"""With a network policy for each job."""


class PreflightError(Exception):
    """The cluster is not ready for the operator; the message is a sentence for its administrator."""


class Forbidden(PreflightError):
    """The operator lacks rights, perhaps in one namespace alone."""


async def check_cluster(client: ApiClient, rest_config: RestConfig, namespace: str | None, needed: Rights) -> None:
    """Raise PreflightError unless jobs can be listed and everything needed may be done."""

    async def check() -> None:
        await _check_crd(client, rest_config.server, namespace)
        await _check_rights(client, namespace, needed)

    await _patiently(check, rest_config.startup_timeout_seconds)


async def open_namespaces(
    client: ApiClient, rest_config: RestConfig, namespaces: Sequence[str | None], needed: Rights
) -> tuple[str | None, ...]:
    """Return the namespaces that the operator can work in. Raises PreflightError if there is none.

    Deleting a namespace also deletes the operator's rights there; the jobs in all other namespaces must go on.
    """
    found: list[str | None] = []
    problems: list[Forbidden] = []
    for namespace in namespaces:
        try:
            await check_cluster(client, rest_config, namespace, needed)
            found.append(namespace)
        except Forbidden as error:
            problems.append(error)
    if not found:
        raise problems[0]
    for problem in problems:
        logger.error("namespace left out, and looked at again every minute", extra={"error": str(problem)})
    return tuple(found)


async def wait_for_rights(client: ApiClient, rest_config: RestConfig, namespace: str | None, needed: Rights) -> None:
    """Wait until a namespace that was left out can be worked in."""
    while True:
        await asyncio.sleep(LEFT_OUT_SECONDS)
        with suppress(PreflightError, KubeError):
            await check_cluster(client, rest_config, namespace, needed)
            return


async def may_watch_nodes(client: ApiClient, rest_config: RestConfig) -> bool:
    """Return whether nodes and their leases may be watched.

    A process asks this only once, so it asks again after an error of the server. Raises PreflightError, Unauthorized.
    """

    async def check() -> list[bool]:
        return await asyncio.gather(
            *(
                _allowed(client, resource, "", verb, namespace)
                for resource, namespace in ((NODES, None), (LEASES, LEASE_NAMESPACE))
                for verb in ("get", "list", "watch")
            )
        )

    try:
        allowed = all(await _patiently(check, rest_config.startup_timeout_seconds))
    except (NotFound, Refused):
        allowed = False
    if not allowed:
        logger.warning(
            "no right to get, list and watch nodes and their leases: lost nodes are noticed by their pods, later"
        )
    return allowed


async def may_hold_lease(client: ApiClient, namespace: str, name: str) -> None:
    """Raise PreflightError unless the leader election can work with the Lease of that name.

    RBAC cannot bind `create` to a name, and the chart binds the other verbs to it.
    """
    verbs = {"get": name, "create": "", "update": name}
    try:
        answers = await asyncio.gather(
            *(_allowed(client, LEASES, "", verb, namespace, named) for verb, named in verbs.items())
        )
    except KubeError:
        return
    for verb, allowed in zip(verbs, answers, strict=True):
        if not allowed:
            msg = (
                f"this identity may not {verb} the lease {name} in namespace {namespace}: grant it, "
                "or run a single operator with --no-leader-elect"
            )
            raise PreflightError(msg)


async def _patiently(check: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Return the result of `check`, repeated while the server is unavailable. Raises PreflightError after `seconds`."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while True:
        try:
            return await check()
        except (Retry, OutcomeUnknown) as error:
            if loop.time() >= give_up:
                raise PreflightError(error.message) from error
            logger.warning("waiting for the API server", extra={"error": error.message})
            await asyncio.sleep(PAUSE_SECONDS)


async def _check_crd(client: ApiClient, server: str, namespace: str | None) -> None:
    try:
        async for _page in client.list_pages(JOBS, namespace, limit=1):
            return
    except NotFound as error:
        msg = (
            "the cluster does not know DistributedTrainingJobs: "
            "install the CRD first (dtj-operator crd | kubectl apply --server-side -f -)"
        )
        raise PreflightError(msg) from error
    except Unauthorized as error:
        msg = f"the API server at {server} does not accept the credentials: {error.message}"
        raise PreflightError(msg) from error
    except Refused as error:
        msg = f"this identity may not list distributedtrainingjobs {_place(namespace)}: install the chart's RBAC rules"
        raise Forbidden(msg) from error


async def _check_rights(client: ApiClient, namespace: str | None, needed: Rights) -> None:
    rights = [(resource, subresource, verb) for resource, subresource, verbs in needed for verb in verbs]
    try:
        answers = await asyncio.gather(*(_allowed(client, *right, namespace) for right in rights))
    except (NotFound, Refused):
        # A server that does not answer such questions; the first request will tell.
        return
    missing = [
        f"{verb} {resource.plural}" + (f"/{subresource}" if subresource else "")
        for (resource, subresource, verb), allowed in zip(rights, answers, strict=True)
        if not allowed
    ]
    if missing:
        msg = f"this identity may not {', '.join(missing)} {_place(namespace)}: install the chart's RBAC rules"
        raise Forbidden(msg)


async def _allowed(
    client: ApiClient,
    resource: GroupVersionResource,
    subresource: str,
    verb: str,
    namespace: str | None,
    name: str = "",
) -> bool:
    attributes: dict[str, Any] = {"group": resource.group, "resource": resource.plural, "verb": verb}
    if subresource:
        attributes["subresource"] = subresource
    if namespace:
        attributes["namespace"] = namespace
    if name:
        attributes["name"] = name
    body = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(ACCESS_REVIEWS, None, body)
    return bool((answer.get("status") or {}).get("allowed"))


def _place(namespace: str | None) -> str:
    return f"in namespace {namespace}" if namespace else "in the whole cluster"
