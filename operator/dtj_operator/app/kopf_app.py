"""The kopf handlers of the operator: kopf watches the jobs, logs in, and starts and stops the manager.

kopf runs in the loop of the process and takes its SIGTERM. Of its handlers of objects only `on.event` is used, so it
writes nothing. Its probe would not answer before the start has ended: /healthz and /readyz are served by `http_server`.
docs/decisions/036 gives the reasons.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import kopf

from dtj_operator import user_agent
from dtj_operator.app.runnables import RestartNeeded
from dtj_operator.kube.resources import JOBS
from dtj_operator.kube.transport import open_session

if TYPE_CHECKING:
    import aiohttp

    from dtj_operator.app.manager import Manager

ERROR_PAUSES = (0.5, 1, 2, 3, 5, 8, 13, 21, 21, 21, 21)
"""Two minutes of 5xx in a relist are survived."""
LOGIN_SECONDS = 5.0
"""Between two logins at least: kopf logs in at every 401, at once and without end, each time with a new connection."""


async def run(manager: Manager) -> None:
    """Run the operator until SIGTERM, SIGINT, or `manager.ending`. Raises manager.failure, RestartNeeded."""
    registry = kopf.OperatorRegistry()
    rest_config = manager.rest_config
    namespaces = list(manager.settings.namespaces)
    loop = asyncio.get_running_loop()
    last_login = float("-inf")
    session: aiohttp.ClientSession | None = None

    @kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def start(**_: Any) -> None:
        await asyncio.sleep(0)  # else Python warns of the tasks of kopf that a failing start kept from beginning
        await manager.start()
        # kopf reads this list when startup has ended; a namespace without rights would end it.
        namespaces[:] = [namespace for namespace in manager.namespaces if namespace]

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal last_login, session
        await asyncio.sleep(last_login + LOGIN_SECONDS - loop.time())
        last_login = loop.time()
        rest_config.token.forget()
        session = open_session(rest_config, user_agent())
        token = rest_config.token.current()
        if token:
            session.headers["Authorization"] = f"Bearer {token}"
        return kopf.AiohttpSession(server=rest_config.server, aiohttp_session=session)

    @kopf.on.event(JOBS.group, JOBS.version, JOBS.plural, registry=registry)
    async def job_event(event: Any, **_: Any) -> None:  # kopf runs what is not async in a thread pool
        manager.job_changed(event["type"], event["object"])

    @kopf.on.cleanup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def stop(**_: Any) -> None:
        # Whatever still runs after this, kopf waits for, and then cancels.
        await manager.stop()

    try:
        await kopf.operator(
            registry=registry,
            settings=watch_only(),
            clusterwide=not namespaces,
            namespaces=namespaces,
            standalone=True,
            stop_flag=manager.ending,
        )
    except Exception as error:
        if manager.failure is None:
            msg = f"the watch of jobs has ended: {error}"
            raise RestartNeeded(msg) from error
    finally:
        # kopf has done both, unless it was cancelled itself.
        await manager.stop()
        if session is not None:
            await session.close()
    if manager.failure is not None:
        raise manager.failure


def watch_only() -> kopf.OperatorSettings:
    """Return settings for nothing but watching."""
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
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress(name="dtj.dev")
    settings.process.ultimate_exiting_timeout = None
    return settings


class NoDiffBase(kopf.DiffBaseStorage):
    """A storage that is always empty: kopf compares every object with its former state, which is not needed here."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        pass


class NoProgress(kopf.StatusProgressStorage):
    """A storage that is always empty: kopf need not clear progress from a copy of every object."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
