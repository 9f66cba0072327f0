"""TFRecord files as a source, in blocks of whole records.

A record is its length (8 bytes, little-endian), the length's checksum (4), the data, and the data's checksum (4). The
lengths are read once at the start, for random access to every record. All checksums are compared: the lengths' at the
start, and both whenever a block is read.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtj_trainer.data.sources import crc32c
from dtj_trainer.data.sources.files import File, Files, explain_read_errors, find
from dtj_trainer.data.sources.table import Block
from dtj_trainer.errors import PreflightFailed

HEAD, FRAME = struct.Struct("<QI"), 16
BLOCK = 1 << 20
"""Bytes of a block, about."""
HEADS = 4096
"""Records whose lengths are read before their checksums are compared."""


class Records:
    """A Table with one column, the records; `parse` turns a record into an example, as TensorFlow ops."""

    takes_batches = False

    def __init__(self, files: Sequence[File], parse: Callable[[Any], Any]) -> None:
        self.blocks = tuple(block for file in files for block in _split(file))
        self.size = sum(block.rows for block in self.blocks)
        self._parse = parse

    def read(self, block: Block) -> Mapping[str, Any]:
        import numpy as np

        held, lengths = block.file.read_with_retries(lambda: _read_checked(block))
        found = np.empty(block.rows, object)
        place = HEAD.size
        for number, length in enumerate(lengths):
            found[number] = held[place : place + length]
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
        heads: dict[int, bytes] = {}
        while place < file.size:
            opened.seek(place)
            heads[place] = head = opened.read(HEAD.size)
            length, _ = HEAD.unpack(head) if len(head) == HEAD.size else (file.size, 0)
            cut_off = place + FRAME + length > file.size
            if cut_off or len(heads) == HEADS or place + FRAME + length == file.size:
                _check_lengths(file, heads)
                heads.clear()
            if cut_off:
                raise PreflightFailed(f"{file.name} is cut off (at byte {place}); write it again, or leave it out")
            place, rows = place + FRAME + length, rows + 1
            if place - start >= BLOCK or place == file.size:
                yield Block(file, rows, place - start, start, place - start)
                start, rows = place, 0


def _check_lengths(file: File, heads: Mapping[int, bytes]) -> None:
    """Compare the checksums of lengths, by the offset of their records; a head that is cut off has none."""
    whole = {place: head for place, head in heads.items() if len(head) == HEAD.size}
    if crc32c.all_match(b"".join(whole.values()), [8] * len(whole)):
        return
    for place, head in whole.items():
        if not _matches(head[:8], head[8:]):
            raise (
                _damaged(file, place, "length")
                if place
                else PreflightFailed(
                    f"{file.name} is no uncompressed TFRecord file (at byte 0); write it again, or leave it out"
                )
            )


def _read_checked(block: Block) -> tuple[bytes, list[int]]:
    """Return the bytes of a block and the lengths of its records, after their checksums are compared."""
    held = block.file.bytes(block.start, block.length)
    lengths: list[int] = []
    place = 0
    while place + FRAME <= len(held):
        lengths.append(HEAD.unpack_from(held, place)[0])
        place += FRAME + lengths[-1]
    pieces = [size for length in lengths for size in (8, length)]
    if place != len(held) or not crc32c.all_match(held, pieces):
        _name_damage(block, held)
    return held, lengths


def _name_damage(block: Block, held: bytes) -> None:
    """Raise PreflightFailed for the first record whose checksums are wrong."""
    place = 0
    while place < len(held):
        data = place + HEAD.size
        length, _ = HEAD.unpack_from(held, place)
        if not _matches(held[place : place + 8], held[place + 8 : data]):
            raise _damaged(block.file, block.start + place, "length")
        if not _matches(held[data : data + length], held[data + length : data + length + 4]):
            raise _damaged(block.file, block.start + place, "data")
        place += FRAME + length


def _matches(data: bytes, checksum: bytes) -> bool:
    return crc32c.masked(data) == int.from_bytes(checksum, "little")


def _damaged(file: File, place: int, what: str) -> PreflightFailed:
    return PreflightFailed(
        f"{file.name} has a damaged record at byte {place}: the checksum of its {what} is wrong; write the file again, "
        "or leave it out"
    )
