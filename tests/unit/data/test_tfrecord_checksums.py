"""CRC-32C, and the refusal of TFRecord files with a wrong checksum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj_trainer import data
from dtj_trainer.data.sources import crc32c, tfrecord_files
from dtj_trainer.errors import PreflightFailed
from tests.trainer.data import tfrecords

RECORD = len(tfrecords.framed(tfrecords.example(0)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next two: RFC 3720, appendix B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_crc_32c(message, expected):
    assert crc32c.checksum(message) == expected


@pytest.mark.parametrize("size", [5_684, 5_685, 5_686, 22_739, 22_740, 22_741, 100_003])
def test_the_checksum_of_a_long_message_is_that_of_the_division_byte_by_byte(size):
    message = np.random.default_rng(size).bytes(size)
    remainder, table = 0xFFFFFFFF, [int(value) for value in crc32c._tables(0)[0]]
    for byte in message:
        remainder = table[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    assert crc32c.checksum(message) == remainder ^ 0xFFFFFFFF


@given(st.lists(st.binary(max_size=50), min_size=1, max_size=5), st.data())
def test_one_wrong_byte_anywhere_among_the_pieces_is_seen(pieces, drawn):
    framed = b"".join(piece + crc32c.masked(piece).to_bytes(4, "little") for piece in pieces)
    lengths = [len(piece) for piece in pieces]
    assert crc32c.all_match(framed, lengths)
    wrong = bytearray(framed)
    wrong[drawn.draw(st.integers(0, len(framed) - 1))] ^= drawn.draw(st.integers(1, 255))
    assert not crc32c.all_match(bytes(wrong), lengths)


DAMAGES = {
    "its length, to beyond the end of the file": (
        2 * RECORD + 5,
        "has a damaged record at byte {}: the checksum of its length",
    ),
    "its length, to another one": (2 * RECORD, "has a damaged record at byte {}: the checksum of its length"),
    "the checksum of its length": (2 * RECORD + 9, "has a damaged record at byte {}: the checksum of its length"),
    "its data": (2 * RECORD + 14, "has a damaged record at byte {}: the checksum of its data"),
    "the checksum of its data": (3 * RECORD - 1, "has a damaged record at byte {}: the checksum of its data"),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("since", ["before the job", "since it was indexed"])
def test_a_damaged_record_is_refused_with_its_file_and_offset(damage, since, tmp_path, monkeypatch):
    monkeypatch.setattr(tfrecord_files, "BLOCK", RECORD)
    whole, file = tfrecords.of_ids(range(5)), tmp_path / "a.tfrecord"
    place, words = DAMAGES[damage]
    wrong = bytearray(whole)
    wrong[place] ^= 1
    file.write_bytes(wrong if since == "before the job" else whole)

    def read():
        source = data.tfrecord(file, parse=str)
        file.write_bytes(wrong)
        return [source.read(block) for block in source.blocks]

    with pytest.raises(PreflightFailed) as caught:
        read()
    assert f"{file} {words.format(2 * RECORD)}" in caught.value.message


def test_records_of_any_length_are_read(tmp_path):
    records = [bytes([number % 251]) * length for number, length in enumerate([0, 1, 3, 4, 5, 6_000, 100_000, 7])]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(map(tfrecords.framed, records)))
    source = data.tfrecord(tmp_path, parse=str)
    assert [record for block in source.blocks for record in source.read(block)["record"]] == records
