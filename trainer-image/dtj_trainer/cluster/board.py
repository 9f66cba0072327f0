"""A notice board between the processes of a MultiWorkerMirrored job, beside its collectives.

It is the key-value store of TensorFlow's coordination service; a key is written once.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

ASK_SECONDS = 60.0
"""After so long a reader asks anew; it waits for as long as its cluster lives."""
ANSWER_SECONDS = 0.02
"""What the last answer of the board needs to arrive, should this process end right after a barrier."""


class Board:
    """Posts and reads short texts. With one process everything stays in that process."""

    def __init__(self, rank: int, processes: int) -> None:
        self._rank = rank
        self._processes = processes
        self._rounds = itertools.count()
        self._store: Any = None
        if processes > 1:
            from tensorflow.python.eager import context

            self._store = context.context()

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
                found.append(self.read(key))

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
        """What stands under that key, as soon as somebody has written it."""
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
        import tensorflow as tf

        while True:
            with contextlib.suppress(tf.errors.DeadlineExceededError):
                return _text(self._store.get_config_key_value(key, int(ASK_SECONDS * 1000)))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
