"""TFRecord files as a source, in blocks of whole records.

A record is its length (8 bytes, little-endian), the length's checksum (4), the data, and the data's checksum (4). The
lengths are read once at the start, for random access to every record.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtj_trainer.data.sources.files import File, Files, explain_read_errors, find
from dtj_trainer.data.sources.table import Block
from dtj_trainer.errors import PreflightFailed

HEAD, FRAME = struct.Struct("<QI"), 16
BLOCK = 1 << 20
"""Bytes of a block, about."""


class Records:
    """A Table with one column, the records; `parse` turns a record into an example, as TensorFlow ops."""

    takes_batches = False

    def __init__(self, files: Sequence[File], parse: Callable[[Any], Any]) -> None:
        self.blocks = tuple(block for file in files for block in _split(file))
        self.size = sum(block.rows for block in self.blocks)
        self._parse = parse

    def read(self, block: Block) -> Mapping[str, Any]:
        import numpy as np

        held = block.file.read_with_retries(lambda: block.file.bytes(block.start, block.length))
        found = np.empty(block.rows, object)
        place = 0
        for number in range(block.rows):
            length, _ = HEAD.unpack_from(held, place)
            found[number] = held[place + HEAD.size : place + HEAD.size + length]
            place += FRAME + length
        return {"record": found}

    def __getstate__(self) -> dict[str, Any]:
        """Leave `parse` out of the pickled state: TensorFlow carries it as part of the graph."""
        return {**self.__dict__, "_parse": None}

    def signature(self) -> Mapping[str, Any]:
        import tensorflow as tf

        return {"record": tf.TensorSpec([None], tf.string)}

    def example(self, columns: Any) -> Any:
        return self._parse(columns["record"])


def tfrecord(files: Files, parse: Callable[[Any], Any], *, storage: Mapping[str, Any] | None = None) -> Records:
    """Read examples from uncompressed TFRecord files; `parse(record)` is TensorFlow code that returns one example.

    Raises:
        PreflightFailed: a file is missing, unreadable, empty, or not a TFRecord file.
    """
    return Records(find("dtj.data.tfrecord", files, ".tfrecord", storage), parse)


def _split(file: File) -> Iterator[Block]:
    with explain_read_errors(file.name), file.open() as opened:
        start = place = rows = 0
        while place < file.size:
            opened.seek(place)
            head = opened.read(HEAD.size)
            length, checksum = HEAD.unpack(head) if len(head) == HEAD.size else (file.size, 0)
            if place + FRAME + length > file.size or (place == 0 and checksum != _masked(head[:8])):
                what = "is cut off" if place else "is no uncompressed TFRecord file"
                raise PreflightFailed(f"{file.name} {what} (at byte {place}); write it again, or leave it out")
            place, rows = place + FRAME + length, rows + 1
            if place - start >= BLOCK or place == file.size:
                yield Block(file, rows, place - start, start, place - start)
                start, rows = place, 0


def _masked(data: bytes) -> int:
    """Return TFRecord's checksum: CRC-32C (RFC 3720, appendix B.4), rotated and moved (tsl/lib/hash/crc32c.h)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
