"""Writes scalars into event files for TensorBoard.

Neither TensorBoard nor TensorFlow's summary ops are used: the ops take one percent of the time of a training that
reports four times a second.
"""

import copy
import functools
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from dtj_trainer.reporting.log_directory import LogDirectory

FLUSH_SECONDS = 2.0
VERSION = "brain.Event:2"
"""The first record of an event file (tensorflow/core/util/events_writer.cc)."""

Point: TypeAlias = Any
"""A Summary.Value, which is a protocol buffer without types."""


class RecordWriter(Protocol):
    """A tf.io.TFRecordWriter."""

    def write(self, record: bytes, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class EventFileWriter:
    """A writer of scalars by step into a directory; without a directory it writes nothing."""

    def __init__(self, directory: str) -> None:
        self._writer: RecordWriter | None = None
        self._flushed = time.monotonic()
        if not directory:
            return
        import tensorflow as tf

        self._logs = LogDirectory(directory)
        self._logs.path.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._writer = tf.io.TFRecordWriter(str(self._logs.path / name))
        self._add(file_version=VERSION)

    def write(self, step: int, scalars: Mapping[str, float | None]) -> None:
        """Write one point for each name; None is skipped."""
        if self._writer is None:
            return
        from tensorflow.compat.v1 import Summary

        points = [_point(name, value) for name, value in scalars.items() if value is not None]
        self._add(step=step, summary=Summary(value=points))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def _add(self, **event: object) -> None:
        from tensorflow.compat.v1 import Event

        assert self._writer is not None
        self._writer.write(Event(wall_time=time.time(), **event).SerializeToString())

    def flush(self) -> None:
        """Flush buffered points, and upload the file if that is due."""
        if self._writer is not None:
            self._writer.flush()
            self._flushed = time.monotonic()
            self._logs.upload_if_due()

    def close(self) -> None:
        """Close the file, and upload the rest of it."""
        if self._writer is not None:
            self._writer.close()
            self._logs.close()


def _point(name: str, value: float) -> Point:
    point = copy.deepcopy(_zero())
    point.tag = name
    point.tensor.float_val[0] = value
    return point


@functools.cache
def _zero() -> Point:
    """Return a point as tf.summary.scalar writes it, which would need TensorBoard."""
    import tensorflow as tf
    from tensorflow.compat.v1 import Summary, SummaryMetadata

    scalars = SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = SummaryMetadata(plugin_data=scalars, data_class="DATA_CLASS_SCALAR")
    return Summary.Value(metadata=metadata, tensor=tf.make_tensor_proto(0.0, tf.float32))
