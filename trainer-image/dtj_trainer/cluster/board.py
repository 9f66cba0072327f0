"""A notice board between the processes of a MultiWorkerMirrored job, beside its collectives.

It is the key-value store of TensorFlow's coordination service; a key is written once.
"""

import contextlib
import itertools
import time
from typing import Any

WAIT_SECONDS = 600.0
PEEK_MILLISECONDS = 1
ANSWER_SECONDS = 0.02
"""What the last answer of the board needs to arrive, should this process end right after a barrier."""


class Board:
    """Posts and reads short texts. With one process everything stays in that process."""

    def __init__(self, rank: int, processes: int) -> None:
        self._rank = rank
        self._processes = processes
        self._rounds = itertools.count()
        self._store: Any = None
        self._own: dict[str, str] = {}
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

    def offer(self, key: str, text: str) -> None:
        """Write under a key of one's own choice; who comes second changes nothing."""
        if self._store is None:
            self._own.setdefault(key, text)
            return
        import tensorflow as tf

        with contextlib.suppress(tf.errors.AlreadyExistsError):
            self._store.set_config_key_value(f"dtj/{key}", text)

    def peek(self, key: str) -> str | None:
        """What stands under that key now; None if nobody has written it."""
        if self._store is None:
            return self._own.get(key)
        import tensorflow as tf

        with contextlib.suppress(tf.errors.NotFoundError, tf.errors.DeadlineExceededError):
            return _text(self._store.get_config_key_value(f"dtj/{key}", PEEK_MILLISECONDS))
        return None

    def read(self, key: str) -> str:
        """What stands under that key, as soon as somebody has written it."""
        return self._own[key] if self._store is None else self._await(f"dtj/{key}")

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
        return _text(self._store.get_config_key_value(key, int(WAIT_SECONDS * 1000)))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
