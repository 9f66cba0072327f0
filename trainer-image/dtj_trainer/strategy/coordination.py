"""A notice board between the processes of a MultiWorkerMirrored job, beside its collectives.

It is the key-value store of TensorFlow's coordination service; a key is written once.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.probes import serves
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.errors import PeerLost

FIRST_ASK_SECONDS = 5.0
LAST_ASK_SECONDS = 60.0
"""After so long a reader asks anew, and waits for as long as the board is there. The board keeps all that was asked."""
SILENT_POLL_SECONDS = 0.1
ANSWER_SECONDS = 0.02
"""What the last answer of the board needs to arrive, should this process end right after a barrier."""


class Board:
    """Posts and reads short texts. With one process everything stays in that process."""

    def __init__(self, environment: Environment, processes: int) -> None:
        self._environment = environment
        self._rank = environment.rank if processes > 1 else 0
        self._processes = processes
        self._rounds = itertools.count()
        self._store: Any = None
        if processes > 1:
            self._store = compat.key_value_store()

    def from_chief(self, text: str) -> str:
        """What rank 0 says; every process has to call it, in the same order."""
        key = f"dtj/{next(self._rounds)}"
        if self._store is None:
            return text
        if self._rank == 0:
            self._store.set_config_key_value(key, text)
            return text
        return self._await(key)

    def place(self) -> str:
        """The beginning of keys that nobody has used; every process has to call it, in the same order."""
        return f"{next(self._rounds)}"

    def offer(self, key: str, text: str) -> None:
        """Write under a key of one's own choice; who comes second changes nothing."""
        import tensorflow as tf

        with contextlib.suppress(tf.errors.AlreadyExistsError):
            self._store.set_config_key_value(f"dtj/{key}", text)

    def watch(self, key: str) -> Callable[[], str | None]:
        """What tells what stands under that key, None until somebody has written it; asking costs nothing."""
        found: list[str] = []

        def look() -> None:
            with contextlib.suppress(Exception):  # a lost peer; the next collective says so
                while (text := self._ask(f"dtj/{key}", LAST_ASK_SECONDS)) is None:
                    continue
                found.append(text)

        threading.Thread(target=look, name="dtj-board", daemon=True).start()
        return lambda: found[0] if found else None

    def has(self, key: str, seconds: float) -> bool:
        """Whether something stands under that key within so many seconds."""
        import tensorflow as tf

        try:
            self._store.get_config_key_value(f"dtj/{key}", int(seconds * 1000))
        except (tf.errors.NotFoundError, tf.errors.DeadlineExceededError):
            return False
        return True

    def read(self, key: str) -> str:
        """What stands under that key, as soon as somebody has written it.

        Raises:
            PeerLost: rank 0, which holds the board, is frozen or unreachable.
        """
        return self._await(f"dtj/{key}")

    def follow_chief(self, key: str) -> None:
        """Return when rank 0 has called this with the same key; it does not wait itself."""
        if self._store is None:
            return
        if self._rank == 0:
            self.offer(key, "yes")
        else:
            self.read(key)

    def barrier(self) -> None:
        """Return when every process has come here; in rank 0, which holds the board, when the others have gone on."""
        key = f"dtj/{next(self._rounds)}"
        if self._store is None:
            return
        if self._rank == 0:
            self._collect(f"{key}/here")
            self._store.set_config_key_value(f"{key}/open", "yes")
            self._collect(f"{key}/gone")
            time.sleep(ANSWER_SECONDS)
            return
        self._store.set_config_key_value(f"{key}/here/{self._rank}", "yes")
        self._await(f"{key}/open")
        self._store.set_config_key_value(f"{key}/gone/{self._rank}", "yes")

    def _collect(self, key: str) -> None:
        for rank in range(1, self._processes):
            self._await(f"{key}/{rank}")

    def _await(self, key: str) -> str:
        seconds = FIRST_ASK_SECONDS
        while (text := self._ask(key, seconds)) is None:
            if self._rank:
                self._check_holder()
            seconds = min(2 * seconds, LAST_ASK_SECONDS)
        return text

    def _ask(self, key: str, seconds: float) -> str | None:
        import tensorflow as tf

        try:
            return _text(self._store.get_config_key_value(key, int(seconds * 1000)))
        except tf.errors.DeadlineExceededError:
            return None

    def _check_holder(self) -> None:
        """Raise PeerLost where rank 0 is silent for as long as a peer may be: TensorFlow would wait for it for ever."""
        config, limit = self._environment.tf_config, self._environment.heartbeat_seconds
        began = time.monotonic()
        while not serves(*config.endpoint(config.leader)):
            if time.monotonic() - began >= limit:
                raise PeerLost(f"{config.leader} ({config.address(config.leader)}) does not answer after {limit:g} s")
            time.sleep(SILENT_POLL_SECONDS)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
