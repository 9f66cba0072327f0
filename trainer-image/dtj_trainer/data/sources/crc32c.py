"""CRC-32C (RFC 3720, appendix B.4), and TFRecord's masked form of it, computed with NumPy.

A CRC is the remainder of a polynomial, bytes in order being its coefficients. It is linear, so that one remainder over
a whole block of records shows whether all their checksums are right.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

GENERATOR = 0x82F63B78
"""The generator polynomial, lowest bit first."""
ONES = np.uint32(0xFFFFFFFF)
MASK_DELTA = np.uint32(0xA282EAD8)
"""TensorFlow's xla/tsl/lib/hash/crc32c.h: a masked checksum is rotated right by 15 bits, plus this."""
FAR, MIDDLE, NEAR = 5685, 1362, 426
"""The generator divides x^FAR + x^MIDDLE + x^NEAR + 1, and so the same with each exponent times any power of two.
Found by a search over the remainders of x^n; no such sum has a FAR below 5275."""


def masked(data: bytes) -> int:
    """Return the masked checksum that a TFRecord file has after `data`."""
    crc = int(checksum(data))
    return (((crc >> 15) | (crc << 17)) + int(MASK_DELTA)) & 0xFFFFFFFF


def checksum(data: bytes) -> int:
    """Return the CRC-32C of `data`."""
    start = _append_zeros(np.array([ONES]), np.array([len(data)]))[0]
    return int(_remainder(_padded(data)) ^ start ^ ONES)


def all_match(data: bytes, lengths: Sequence[int]) -> bool:
    """Return whether `data` consists of pieces of these lengths, each followed by its masked checksum.

    Each checksum is replaced by the remainder of its piece: where that is right, the remainder of both is 0. So if all
    are, the remainder of the whole is 0; else it is not, with the certainty of a CRC of 32 bits.
    """
    sizes = np.array(lengths, np.int64)
    ends = np.cumsum(sizes + 4) - 4
    if not len(sizes) or ends[-1] + 4 != len(data):
        return not len(sizes) and not data
    message = _padded(data)
    fields = (ends + (len(message) - len(data)))[:, None] + np.arange(4)
    rotated = np.ascontiguousarray(message[fields]).view("<u4")[:, 0] - MASK_DELTA
    found = (rotated >> 17) | (rotated << 15)
    remainders = found ^ ONES ^ _append_zeros(np.full(len(sizes), ONES), sizes)
    message[fields] = remainders.astype("<u4").view(np.uint8).reshape(-1, 4)
    return int(_remainder(message)) == 0


def _padded(data: bytes) -> Any:
    """Return a copy as an array of bytes, with zeros before it up to whole words of 4: they change no remainder."""
    message = np.zeros(-(-len(data) // 4) * 4, np.uint8)
    message[len(message) - len(data) :] = np.frombuffer(data, np.uint8)
    return message


def _remainder(message: Any) -> Any:
    """Return the remainder of an array of bytes, which it changes.

    Tables would take 4 ns a byte. So its first words are added to three later ones each, which keeps the remainder,
    until FAR bytes are left for the tables.
    """
    for word in (np.uint32, np.uint8):
        message = _shortened(message.view(word)).view(np.uint8)
    words = np.zeros(1 << (len(message) // 4).bit_length(), np.uint32)
    words.view(np.uint8)[words.nbytes - len(message) :] = message
    while len(words) > 1:
        half = len(words) // 2
        words = _append_zeros_once((4 * half).bit_length() - 1, words[:half]) ^ words[half:]
    return _append_zeros_once(2, words)[0]


def _shortened(words: Any) -> Any:
    """Return at most FAR words with the same remainder."""
    start = 0
    while (count := min(FAR - MIDDLE, len(words) - FAR - start)) > 0:
        first = words[start : start + count]
        for distance in (FAR - MIDDLE, FAR - NEAR, FAR):
            words[start + distance : start + distance + count] ^= first
        start += count
    return words[start:]


def _append_zeros(remainders: Any, lengths: Any) -> Any:
    """Return the remainders of messages after so many zero bytes are appended to each."""
    for power in range(int(np.bitwise_or.reduce(lengths)).bit_length()):
        longer = (lengths >> power) & 1 == 1
        if longer.any():
            remainders = np.where(longer, _append_zeros_once(power, remainders), remainders)
    return remainders


def _append_zeros_once(power: int, remainders: Any) -> Any:
    """Return the remainders after 2**power zero bytes are appended."""
    tables = _tables(power)
    found = tables[0].take(remainders & 0xFF)
    for number in range(1, 4):
        found ^= tables[number].take(remainders >> np.uint32(8 * number) & 0xFF)
    return found


@cache
def _tables(power: int) -> Any:
    """Return, for each of the four bytes of a remainder and each value, what it becomes by 2**power zero bytes."""
    values = np.arange(256, dtype=np.uint32)
    if power:
        return np.stack([_append_zeros_once(power - 1, table) for table in _tables(power - 1)])
    first = values
    for _ in range(8):
        first = np.where(first & 1, (first >> 1) ^ np.uint32(GENERATOR), first >> 1)
    return np.stack([first, *(values << np.uint32(8 * number) for number in range(3))])
