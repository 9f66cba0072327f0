"""TFRecord files without TensorFlow: the framing of dtj_trainer.data.sources.tfrecord_files and a hand-made Example."""

import struct
from collections.abc import Iterable

from dtj_trainer.data.sources import crc32c


def of_ids(ids: Iterable[int]) -> bytes:
    """Records with Examples that have one int64 feature, `id`."""
    return b"".join(framed(example(each)) for each in ids)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", crc32c.masked(length)) + data + struct.pack("<I", crc32c.masked(data))


def example(number: int) -> bytes:
    """Example{features{feature{"id": {int64_list{value: number}}}}}, numbers below 128 (protobuf's wire format)."""
    values = _field(3, _field(1, bytes([number])))
    entry = _field(1, b"id") + _field(2, values)
    return _field(1, _field(1, entry))


def _field(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data
