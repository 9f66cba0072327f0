"""The real operator in its own thread, which can be killed as with `kill -9`.

The thread has its own event loop, which is kopf's too, and like a process it shares nothing with others but the API
server. `kill` is abrupt: from that moment nothing that the operator still sends arrives (`kill_client`), so that
cleanup of its tasks has no effect, and all its memory is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from itertools import count
from pathlib import Path
from types import CoroutineType
from typing import TYPE_CHECKING, Final, Protocol

import dtj_operator
from dtj_operator.app import kopf_app
from dtj_operator.app.manager import Manager
from dtj_operator.app.settings import Settings
from dtj_operator.kube.rest_config import RestConfig, Token

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from datetime import datetime

USER_AGENT: Final = "dtj-operator/"
QUIET: Final = Settings(leader_elect=False, metrics=None, health=None, progress=False)
"""No elections, no ports, no questions to pods."""
PATIENCE_SECONDS: Final = 30.0
"""Real seconds for a start or an end; only a broken operator needs them."""

OPERATOR_NAMESPACE: Final = "dtj-system"
"""The namespace that the operator runs in."""

OPERATOR_FOLDER: Final = str(Path(dtj_operator.__file__).parent)
_numbers = count(1)


class Server(Protocol):
    """What an operator's process knows of an API server."""

    @property
    def url(self) -> str:
        """Where it listens, without TLS."""
        ...

    def kill_client(self, token: str) -> None:
        """Kill the client with this token."""
        ...


class OperatorProcess:
    """One operator, which can be started, stopped and killed."""

    def __init__(
        self,
        server: Server,
        *,
        loop: asyncio.AbstractEventLoop,
        now: Callable[[], datetime],
        token: str = "",
        settings: Settings = QUIET,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare an operator with this loop and wall clock. Without a bearer token it gets one of its own."""
        self.server = server
        self.token = token or f"operator-{next(_numbers)}"
        self.error: BaseException | None = None
        """Why it ended, when it was not told to."""
        self._killed = self._over = False
        self._loop = loop
        rest_config = RestConfig(server=server.url, namespace=OPERATOR_NAMESPACE, token=Token(self.token))
        self.manager = Manager(settings, rest_config, lost=lost, now=now)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=self.token, daemon=True)

    def start(self) -> OperatorProcess:
        """Start the thread, without waiting."""
        self._thread.start()
        return self

    def kill(self) -> None:
        """Kill it as by `kill -9`: at once, without waiting, from any thread."""
        self._killed = True
        self.server.kill_client(self.token)
        self._from_outside(self._fall)

    def terminate(self) -> None:
        """Stop it as by SIGTERM: it finishes its work, then ends."""
        self._from_outside(self.manager.ending.set)

    def run(self, work: Coroutine[None, None, None]) -> Future[None]:
        """Run `work` in the operator's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def ended(self) -> None:
        """Wait until the thread is gone."""
        await asyncio.to_thread(self._thread.join, PATIENCE_SECONDS)
        if self._thread.is_alive():
            message = f"{self.token} has not ended within {PATIENCE_SECONDS:.0f} s"
            raise TimeoutError(message)

    async def ready(self) -> None:
        """Wait until its caches are synced; raises the error that ended it before."""
        waited = await asyncio.to_thread(self._ready.wait, PATIENCE_SECONDS)
        if self.error is not None:
            raise self.error
        if not waited:
            message = f"{self.token} was not ready within {PATIENCE_SECONDS:.0f} s"
            raise TimeoutError(message)

    @property
    def alive(self) -> bool:
        """Tell whether the thread runs and has not been killed."""
        return self._thread.is_alive() and not self._killed

    def _from_outside(self, act: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended already
            self._loop.call_soon_threadsafe(act)  # type: ignore[arg-type]

    def _fall(self) -> None:
        if self._over:  # what winds the loop up is not the operator's
            return
        for task in asyncio.all_tasks(self._loop):
            # Not kopf's own, which do not end when all are cancelled at once; they have no part in any write.
            work = task.get_coro()
            if isinstance(work, CoroutineType) and work.cr_code.co_filename.startswith(OPERATOR_FOLDER):
                task.cancel()
        self.manager.ending.set()

    def _cancel_everything(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._operate())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks
            self.error = None if self._killed else error
        finally:
            self._over = True
            self._ready.set()
            self._cancel_everything()
            left = asyncio.all_tasks(self._loop)
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=PATIENCE_SECONDS))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _operate(self) -> None:
        telling = asyncio.create_task(self._tell_ready())
        try:
            await kopf_app.run(self.manager)
        finally:
            telling.cancel()

    async def _tell_ready(self) -> None:
        await self.manager.ready.wait()
        self._ready.set()
