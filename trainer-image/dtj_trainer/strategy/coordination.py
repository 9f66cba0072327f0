"""Short texts and barriers between the processes of a MultiWorkerMirrored job, beside its collectives."""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.probes import serves
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.compat.types import KeyValueStore
from dtj_trainer.errors import PeerLost

FIRST_TIMEOUT_SECONDS = 5.0
MAX_TIMEOUT_SECONDS = 60.0
"""After so long a reader asks again, for as long as the service is there. The service remembers all that was asked."""
SILENT_POLL_SECONDS = 0.1
ANSWER_SECONDS = 0.02
"""What the last answer of the service needs to arrive, should this process end right after a barrier."""


class CoordinationService:
    """The key-value store of TensorFlow's coordination service; a single process needs none."""

    def __init__(self, environment: Environment, processes: int) -> None:
        self._environment = environment
        self._rank = environment.rank if processes > 1 else 0
        self._processes = processes
        self._rounds = itertools.count()
        self._store: KeyValueStore | None = None
        if processes > 1:
            self._store = compat.key_value_store()

    @property
    def has_peers(self) -> bool:
        """Whether other processes share the store."""
        return self._store is not None

    @property
    def _key_value_store(self) -> KeyValueStore:
        assert self._store is not None
        return self._store

    def broadcast(self, text: str) -> str:
        """Return the text of rank 0; every process has to call it, in the same order."""
        key = f"dtj/{next(self._rounds)}"
        if self._store is None:
            return text
        if self._rank == 0:
            self._key_value_store.set_config_key_value(key, text)
            return text
        return self._wait_for(key)

    def new_prefix(self) -> str:
        """Return a new prefix for keys; every process has to call it, in the same order."""
        return f"{next(self._rounds)}"

    def set(self, key: str, text: str) -> None:
        """Set the value of a key, unless it is set already."""
        import tensorflow as tf

        with contextlib.suppress(tf.errors.AlreadyExistsError):
            self._key_value_store.set_config_key_value(f"dtj/{key}", text)

    def watch(self, key: str) -> Callable[[], str | None]:
        """Return a function that returns the value of the key, or None until it is set; a call does not block."""
        found: list[str] = []

        def wait_for_key() -> None:
            with contextlib.suppress(Exception):  # a lost peer; the next collective raises
                while (text := self._get_within(f"dtj/{key}", MAX_TIMEOUT_SECONDS)) is None:
                    continue
                found.append(text)

        threading.Thread(target=wait_for_key, name="dtj-coordination", daemon=True).start()
        return lambda: found[0] if found else None

    def has(self, key: str, seconds: float) -> bool:
        """Return whether the key is set within so many seconds."""
        import tensorflow as tf

        try:
            self._key_value_store.get_config_key_value(f"dtj/{key}", int(seconds * 1000))
        except (tf.errors.NotFoundError, tf.errors.DeadlineExceededError):
            return False
        return True

    def get(self, key: str) -> str:
        """Wait until a key is set, and return its value.

        Raises:
            PeerLost: rank 0, which holds the store, is frozen or unreachable.
        """
        return self._wait_for(f"dtj/{key}")

    def wait_for_chief(self, key: str) -> None:
        """Wait until rank 0 has called this with the same key; rank 0 does not wait."""
        if self._store is None:
            return
        if self._rank == 0:
            self.set(key, "yes")
        else:
            self.get(key)

    def barrier(self) -> None:
        """Wait for every process; rank 0, which holds the store, returns only after the others have returned."""
        key = f"dtj/{next(self._rounds)}"
        if self._store is None:
            return
        if self._rank == 0:
            self._wait_for_all(f"{key}/here")
            self._key_value_store.set_config_key_value(f"{key}/open", "yes")
            self._wait_for_all(f"{key}/gone")
            time.sleep(ANSWER_SECONDS)
            return
        self._key_value_store.set_config_key_value(f"{key}/here/{self._rank}", "yes")
        self._wait_for(f"{key}/open")
        self._key_value_store.set_config_key_value(f"{key}/gone/{self._rank}", "yes")

    def _wait_for_all(self, key: str) -> None:
        for rank in range(1, self._processes):
            self._wait_for(f"{key}/{rank}")

    def _wait_for(self, key: str) -> str:
        seconds = FIRST_TIMEOUT_SECONDS
        while (text := self._get_within(key, seconds)) is None:
            if self._rank:
                self._check_rank_0()
            seconds = min(2 * seconds, MAX_TIMEOUT_SECONDS)
        return text

    def _get_within(self, key: str, seconds: float) -> str | None:
        import tensorflow as tf

        try:
            return _text(self._key_value_store.get_config_key_value(key, int(seconds * 1000)))
        except tf.errors.DeadlineExceededError:
            return None

    def _check_rank_0(self) -> None:
        """Raise PeerLost if rank 0 does not answer within the heartbeat time: TensorFlow itself would wait on."""
        config, limit = self._environment.tf_config, self._environment.heartbeat_seconds
        began = time.monotonic()
        while not serves(*config.endpoint(config.leader)):
            if time.monotonic() - began >= limit:
                raise PeerLost(f"{config.leader} ({config.address(config.leader)}) does not answer after {limit:g} s")
            time.sleep(SILENT_POLL_SECONDS)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
