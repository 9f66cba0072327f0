"""LeaderElector: one active operator, by a Lease in the operator's own namespace.

Every error counts as "not renewed". The renew deadline is measured on the local monotonic clock from before the renewal
was sent, and is shorter than the lease, so the leader stops before anybody else may start. Others count from the moment
at which they saw the record change, on their own clock. Nobody's wall clock is trusted.
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
class LeaderElectionConfig:
    """The durations of leader election, in seconds. The first three are client-go's, with its defaults."""

    lease_duration: float = 15.0
    """How long others wait after the last renewal."""
    renew_deadline: float = 10.0
    """When the leader gives up after its last renewal."""
    retry_period: float = 2.0
    """Between renewals."""
    observe_period: float = 1.0
    """Between reads of another process's lease: what a standby adds to a change of the leader at most."""
    acquire_period: float = 0.5
    """Between reads of a lease that has no holder."""
    namespace_timeout: float = 30.0
    """How long the lease's namespace may be missing at the start: it may be about to be created."""


class LeaderElectionError(Exception):
    """The lease can never be created; the message is a sentence for the administrator."""


class LeaderElector:
    """A candidate for leadership: acquires the lease, renews it, and reports its loss."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_change: Callable[[bool], None],
        config: LeaderElectionConfig | None = None,
    ) -> None:
        """`on_change(leading)` is called when leadership is gained or lost."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._on_change = on_change
        self._config = config or LeaderElectionConfig()
        self._valid_until = float("-inf")
        self._record: tuple[str, str] = ("", "")
        """resourceVersion and holder as last seen."""
        self._seen_at = float("-inf")
        self._written: dict[str, Any] = {}
        """The lease as this process wrote it last, unless somebody else is known to have changed it."""
        self._missing_since: float | None = None
        """Loop time at which the lease's namespace was first reported missing."""
        self._lock = asyncio.Lock()
        """A renewal in progress ends before the lease is released, and none begins after."""
        self._released = False
        self.leading = asyncio.Event()
        self.lost = asyncio.Event()

    def may_write(self) -> bool:
        """Tell whether writing is still safe: the lease is held and its renew deadline has not passed."""
        return asyncio.get_running_loop().time() < self._valid_until

    async def run(self) -> None:
        """Acquire the lease and renew it; returns when it is lost. Raises LeaderElectionError."""
        while not await self._try_acquire_or_renew():  # noqa: ASYNC110  (nothing signals a free lease)
            await asyncio.sleep(self._pause())
        logger.info("leading", extra={"lease": f"{self._namespace}/{self._name}", "identity": self._identity})
        self._on_change(True)
        self.leading.set()
        while self.may_write():
            await asyncio.sleep(self._config.retry_period * random.uniform(0.8, 1.0))
            if not await self._try_acquire_or_renew() and self._record[1] not in ("", self._identity):
                break
        self._valid_until = float("-inf")
        logger.error("leadership lost", extra={"lease": f"{self._namespace}/{self._name}", "holder": self._record[1]})
        self._on_change(False)
        self.lost.set()

    async def release(self) -> None:
        """Release the lease, so that another process may lead at once."""
        if not self.leading.is_set() or not self.may_write():
            return
        async with self._lock:
            self._released = True
            self._valid_until = float("-inf")
            try:
                async with asyncio.timeout(self._request_timeout):
                    await self._clear_holder()
            except TimeoutError:
                logger.warning("lease not released", extra={"error": "timed out"})

    async def _clear_holder(self) -> None:
        try:
            found = await self._client.get(LEASES, self._namespace, self._name)
            if (found.get("spec") or {}).get("holderIdentity") != self._identity:
                return
            spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
            await self._client.replace(LEASES, self._namespace, self._name, {**found, "spec": spec})
            logger.info("lease released", extra={"lease": f"{self._namespace}/{self._name}"})
        except KubeError as error:
            logger.warning("lease not released", extra={"error": error.message})

    async def _try_acquire_or_renew(self) -> bool:
        """Try to acquire or renew once; any error counts as no."""
        async with self._lock:
            return not self._released and await self._acquire_or_renew_in_time()

    async def _acquire_or_renew_in_time(self) -> bool:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._request_timeout):
                held = await self._acquire_or_renew(began)
        except (KubeError, TimeoutError) as error:
            logger.warning("lease not renewed", extra={"error": str(error) or "timed out"})
            return False
        if held:
            self._valid_until = began + self._config.renew_deadline
        return held

    async def _acquire_or_renew(self, began: float) -> bool:
        if self._written and await self._write(self._written, began):
            return True
        self._written = {}
        try:
            found = await self._client.get(LEASES, self._namespace, self._name)
        except NotFound:
            return await self._create()
        spec: dict[str, Any] = found.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        record = (found["metadata"]["resourceVersion"], holder)
        if record != self._record:
            self._record = record
            self._seen_at = began
        duration = float(spec.get("leaseDurationSeconds") or self._config.lease_duration)
        if holder and holder != self._identity and began - self._seen_at < duration:
            return False
        if holder == self._identity and self.leading.is_set() and not self.may_write():
            # Our own deadline has passed: whatever the record says, we have already stopped.
            return False
        return await self._write(found, began)

    async def _create(self) -> bool:
        """Create the lease: nobody has ever led here, or somebody deleted it while this process leads."""
        if self.leading.is_set() and not self.may_write():
            return False
        try:
            self._written = await self._client.create(LEASES, self._namespace, self._new_lease())
        except AlreadyExists:
            return False
        except (NotFound, Refused) as error:
            if self._can_never_succeed(error):
                msg = f"the lease {self._namespace}/{self._name} cannot be made: {error.message}"
                raise LeaderElectionError(msg) from error
            raise
        return True

    def _can_never_succeed(self, error: NotFound | Refused) -> bool:
        """Tell whether the lease's name is wrong, or its namespace stays missing."""
        if isinstance(error, Refused):
            return error.invalid
        now = asyncio.get_running_loop().time()
        self._missing_since = now if self._missing_since is None else self._missing_since
        return not self.leading.is_set() and now - self._missing_since >= self._config.namespace_timeout

    async def _write(self, found: dict[str, Any], began: float) -> bool:
        """Write this identity and the time into the lease, unless it has changed since it was read."""
        spec: dict[str, Any] = found.get("spec") or {}
        new = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._config.lease_duration),
            "renewTime": _now(),
        }
        if spec.get("holderIdentity") != self._identity:
            new["acquireTime"] = _now()
            new["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        try:
            self._written = await self._client.replace(LEASES, self._namespace, self._name, {**found, "spec": new})
        except (Conflict, NotFound):
            return False
        self._record = (self._written["metadata"]["resourceVersion"], self._identity)
        self._seen_at = began
        return True

    @property
    def _request_timeout(self) -> float:
        """Seconds for a renewal or a release; after the deadline it would be too late."""
        return max(1.0, self._config.renew_deadline / 2)

    def _pause(self) -> float:
        """Return the seconds before the next attempt to acquire the lease."""
        config, holder = self._config, self._record[1]
        period = min(config.observe_period, config.retry_period) if holder else config.acquire_period
        return period * random.uniform(0.8, 1.2)

    def _new_lease(self) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": int(self._config.lease_duration),
                "acquireTime": _now(),
                "renewTime": _now(),
                "leaseTransitions": 0,
            },
        }


def _now() -> str:
    """Return the time as MicroTime, as leases have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
