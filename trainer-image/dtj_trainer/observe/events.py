"""Event files for TensorBoard, written without TensorBoard."""

import time
from collections.abc import Mapping
from typing import Any

from dtj_trainer.observe.logs import Logs

FLUSH_SECONDS = 2.0


class Events:
    """Scalars by step into `directory`; with an empty directory it writes nothing."""

    def __init__(self, directory: str) -> None:
        self._writer: Any = None
        self._flushed = time.monotonic()
        if not directory:
            return
        import tensorflow as tf

        self._logs = Logs(directory)
        self._writer = tf.summary.create_file_writer(str(self._logs.path))
        plugin = tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars")
        self._metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin)

    def write(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """One point for each name; None is left out."""
        if self._writer is None:
            return
        import tensorflow as tf

        with tf.device("/cpu:0"), self._writer.as_default():
            for name, value in scalars.items():
                if value is not None:
                    tf.summary.write(name, tf.constant(value, tf.float32), step, self._metadata)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()
            self._flushed = time.monotonic()
            self._logs.look()

    def close(self) -> None:
        """Everything that was written is where it belongs."""
        if self._writer is not None:
            self._writer.flush()
            self._logs.close()
