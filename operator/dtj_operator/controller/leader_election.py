"""One active operator: a Lease in the operator's own namespace.

Every error counts as "not renewed". The deadline is measured on the local monotonic clock from before the
renewal was sent, and is shorter than the lease, so the holder stops before anybody else may start. Others
count from the moment that they saw the record change, on their own clock; nobody's wall clock is trusted.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dtj_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Refused
from dtj_operator.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.kube.client import ApiClient

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds; the defaults are those of Kubernetes' own controllers, the retry being quicker."""

    lease: float = 15.0
    """How long others wait after the last renewal."""
    deadline: float = 10.0
    """When the holder itself gives up."""
    retry: float = 2.0
    """Between renewals."""
    look: float = 1.0
    """Between looks at somebody else's lease: what a standby adds to a hand-over at most."""
    vacant_retry: float = 0.5
    """Between looks at a lease whose holder is about to leave or has left."""
    no_namespace: float = 30.0
    """How long the lease's namespace may be missing at the start: it may just be being made."""


class LeaseImpossible(Exception):
    """There will never be a lease; the message is a sentence for the administrator."""


class Elector:
    """Acquires the lease, renews it, and says when it is lost."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        observe: Callable[[bool], None],
        terms: Terms | None = None,
    ) -> None:
        """`observe(leading)` is called at every change."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._observe = observe
        self._terms = terms or Terms()
        self._valid_until = float("-inf")
        self._record: tuple[str, str] = ("", "")
        """resourceVersion and holder as last seen."""
        self._seen_at = float("-inf")
        self._own: dict[str, Any] = {}
        """The lease as we wrote it last, while nobody else is known to have touched it."""
        self._missing_since: float | None = None
        """When the lease's namespace was first said not to exist."""
        self._turn = asyncio.Lock()
        """A renewal under way ends before the lease is given back, and none begins after."""
        self._released = False
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()

    def valid(self) -> bool:
        """Whether writing is still safe: the lease is held and its local deadline is ahead."""
        return asyncio.get_running_loop().time() < self._valid_until

    async def run(self) -> None:
        """Wait for the lease and hold it; returns when it is lost. Raises LeaseImpossible."""
        while not await self._attempt():  # noqa: ASYNC110  (nobody tells us when a lease is free)
            await asyncio.sleep(self._wait())
        logger.info("leading", extra={"lease": f"{self._namespace}/{self._name}", "identity": self._identity})
        self._observe(True)
        self.leading.set()
        while self.valid():
            await asyncio.sleep(self._terms.retry * random.uniform(0.8, 1.0))
            if not await self._attempt() and self._record[1] not in ("", self._identity):
                break
        self._valid_until = float("-inf")
        logger.error("leadership lost", extra={"lease": f"{self._namespace}/{self._name}", "holder": self._record[1]})
        self._observe(False)
        self.lost.set()

    async def release(self) -> None:
        """Give the lease back, so that another may start at once."""
        if not self.leading.is_set() or not self.valid():
            return
        async with self._turn:
            self._released = True
            self._valid_until = float("-inf")
            try:
                async with asyncio.timeout(self._patience):
                    await self._give_back()
            except TimeoutError:
                logger.warning("lease not released", extra={"error": "timed out"})

    async def _give_back(self) -> None:
        try:
            found = await self._client.get(LEASES, self._namespace, self._name)
            if (found.get("spec") or {}).get("holderIdentity") != self._identity:
                return
            spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
            await self._client.replace(LEASES, self._namespace, self._name, {**found, "spec": spec})
            logger.info("lease released", extra={"lease": f"{self._namespace}/{self._name}"})
        except KubeError as error:
            logger.warning("lease not released", extra={"error": error.message})

    async def _attempt(self) -> bool:
        """Try to acquire or renew once; any error counts as no."""
        async with self._turn:
            return not self._released and await self._try()

    async def _try(self) -> bool:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._patience):
                held = await self._exchange(began)
        except (KubeError, TimeoutError) as error:
            logger.warning("lease not renewed", extra={"error": str(error) or "timed out"})
            return False
        if held:
            self._valid_until = began + self._terms.deadline
        return held

    async def _exchange(self, began: float) -> bool:
        if self._own and await self._write(self._own, began):
            return True
        self._own = {}
        try:
            found = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._make()
        spec: dict[str, Any] = found.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        record = (found["metadata"]["resourceVersion"], holder)
        if record != self._record:
            self._record = record
            self._seen_at = began
        duration = float(spec.get("leaseDurationSeconds") or self._terms.lease)
        if holder and holder != self._identity and began - self._seen_at < duration:
            return False
        if holder == self._identity and self.leading.is_set() and not self.valid():
            # Our own deadline has passed: whatever the record says, we have already stopped.
            return False
        return await self._write(found, began)

    async def _make(self) -> bool:
        """There is no lease: nobody has ever led here, or somebody deleted it while we lead."""
        if self.leading.is_set() and not self.valid():
            return False
        try:
            self._own = await self._client.create(LEASES, self._namespace, self._new())
        except AlreadyExists:
            return False
        except (NotFound, Refused) as error:
            if self._hopeless(error):
                msg = f"the lease {self._namespace}/{self._name} cannot be made: {error.message}"
                raise LeaseImpossible(msg) from error
            raise
        return True

    def _hopeless(self, error: NotFound | Refused) -> bool:
        """Whether the lease's name is wrong, or its namespace does not come."""
        if isinstance(error, Refused):
            return error.invalid
        now = asyncio.get_running_loop().time()
        self._missing_since = now if self._missing_since is None else self._missing_since
        return not self.leading.is_set() and now - self._missing_since >= self._terms.no_namespace

    async def _write(self, found: dict[str, Any], began: float) -> bool:
        """Put our name and the time into the lease, unless it has changed since it was read."""
        spec: dict[str, Any] = found.get("spec") or {}
        new = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._terms.lease),
            "renewTime": _now(),
        }
        if spec.get("holderIdentity") != self._identity:
            new["acquireTime"] = _now()
            new["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        try:
            self._own = await self._client.replace(LEASES, self._namespace, self._name, {**found, "spec": new})
        except (Conflict, NotFound):
            return False
        self._record = (self._own["metadata"]["resourceVersion"], self._identity)
        self._seen_at = began
        return True

    @property
    def _patience(self) -> float:
        """Seconds for a renewal or a release; longer than the deadline would be too late to matter."""
        return max(1.0, self._terms.deadline / 2)

    def _wait(self) -> float:
        pause = min(self._terms.look, self._terms.retry) if self._record[1] else self._terms.vacant_retry
        return pause * random.uniform(0.8, 1.2)

    def _new(self) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._terms.lease),
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": 0,
            },
        }


def _now() -> str:
    """MicroTime, as leases carry it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
