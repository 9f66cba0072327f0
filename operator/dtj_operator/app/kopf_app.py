"""The stream of jobs, watched by kopf.

kopf gets a thread and an event loop of its own: at its end it cancels every task that was created in its loop
after its start, and it takes the process' signals if it can. Only `on.event` is used, so it writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import kopf

from dtj_operator.app.preflight import RestartNeeded
from dtj_operator.kube.resources import JOBS
from dtj_operator.kube.transport import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dtj_operator.cache.indexer import Indexer
    from dtj_operator.kube.rest_config import RestConfig

logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0
ERROR_PAUSES = (0.5, 1, 2, 3, 5, 8, 13, 21, 21, 21, 21)
"""Two minutes of 5xx in a relist are survived."""
LOGIN_SECONDS = 5.0
"""Between two logins at least: kopf logs in at every 401, at once and without end, each time with a new connection."""


class KopfSource:
    """Watches jobs by `kopf.on.event` and tells an indexer."""

    def __init__(
        self,
        rest_config: RestConfig,
        *,
        user_agent: str,
        namespaces: Sequence[str],
        indexer: Indexer[Any],
        relisted: Callable[[], None],
    ) -> None:
        """`namespaces` empty: the whole cluster.

        `relisted` is called when kopf lists instead of watching, because deletions may have been missed then.
        """
        self._rest_config = rest_config
        self._user_agent = user_agent
        self._namespaces = tuple(namespaces)
        self._indexer = indexer
        self._relisted = relisted
        self._inbox: deque[tuple[str | None, dict[str, Any]]] = deque()
        self._waking = False
        self._home: asyncio.AbstractEventLoop | None = None
        self.synced = asyncio.Event()
        """Set when kopf is up; it does not tell when its first list is complete."""

    async def run(self) -> None:
        """Watch until cancelled. Raises RestartNeeded."""
        self._home = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = self._home.create_future()
        stop = threading.Event()
        thread = threading.Thread(target=self._thread, args=(stop, ended), name="kopf", daemon=True)
        thread.start()
        try:
            error = await asyncio.shield(ended)
        finally:
            stop.set()
            await asyncio.to_thread(thread.join, STOP_SECONDS)
        msg = f"the watch of jobs has ended: {error or 'kopf stopped by itself'}"
        raise RestartNeeded(msg)

    def _thread(self, stop: threading.Event, ended: asyncio.Future[BaseException | None]) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._operate(stop))
        except BaseException as problem:  # noqa: BLE001  (handed to the other thread)
            error = problem
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(_settle, ended, error)

    async def _operate(self, stop: threading.Event) -> None:
        registry = kopf.OperatorRegistry()
        loop = asyncio.get_running_loop()
        last_login = float("-inf")

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            nonlocal last_login
            await asyncio.sleep(last_login + LOGIN_SECONDS - loop.time())
            last_login = loop.time()
            self._rest_config.token.forget()
            session = open_session(self._rest_config, self._user_agent)
            token = self._rest_config.token.current()
            if token:
                session.headers["Authorization"] = f"Bearer {token}"
            return kopf.AiohttpSession(server=self._rest_config.server, aiohttp_session=session)

        @kopf.on.event(JOBS.group, JOBS.version, JOBS.plural, registry=registry)
        async def event(event: Any, **_: Any) -> None:  # kopf runs what is not async in a thread pool
            self._inbox.append((event["type"], event["object"]))
            if not self._waking and self._home is not None:
                self._waking = True
                self._home.call_soon_threadsafe(self._empty_inbox)

        try:
            await kopf.operator(
                registry=registry,
                settings=_settings(),
                clusterwide=not self._namespaces,
                namespaces=self._namespaces,
                standalone=True,
                stop_flag=stop,
            )
        finally:
            # A worker thread of this loop waits for the flag, and the end of the loop waits for that thread.
            stop.set()

    def _empty_inbox(self) -> None:
        self._waking = False
        self.synced.set()
        listed = False
        while self._inbox:
            kind, raw = self._inbox.popleft()
            if kind == "DELETED":
                self._indexer.delete(raw)
            else:
                self._indexer.upsert(raw)
            listed = listed or kind is None
        if listed:
            self._relisted()


class _NoMemory(kopf.DiffBaseStorage):
    """kopf compares every object with what it was before; nothing here asks for the difference."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.StatusProgressStorage):
    """Nothing is in progress, so there is nothing to clear from a copy of every object."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


def _settle(ended: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not ended.done():
        ended.set_result(error)


def _settings() -> kopf.OperatorSettings:
    """Nothing but watching. Each deviation from kopf's defaults has its reason in docs/decisions."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.posting.loggers = False
    settings.watching.server_timeout = 290
    settings.watching.client_timeout = 320
    settings.watching.connect_timeout = 10
    settings.watching.reconnect_backoff = 1.0
    settings.watching.chunk_size = 250
    settings.queueing.idle_timeout = 0.5
    settings.queueing.exit_timeout = 0.5
    settings.queueing.error_delays = (1, 2, 5, 10, 30)
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = ERROR_PAUSES
    settings.networking.enforce_retry_after = True
    settings.persistence.finalizer = "dtj.dev/unused"
    settings.persistence.diffbase_storage = _NoMemory()
    settings.persistence.progress_storage = _NoProgress(name="dtj.dev")
    settings.process.ultimate_exiting_timeout = None
    return settings
