"""CSV files as a source, in blocks of whole lines."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dtj_trainer.data.sources.columns import Columns
from dtj_trainer.data.sources.files import File, Files, explain_read_errors, find, needs
from dtj_trainer.data.sources.table import Block
from dtj_trainer.errors import PreflightFailed

BLOCK = 4 << 20
"""Bytes of a block, about."""
LONGEST = 64 << 20
"""Bytes of a line; a longer one has a quote that is never closed."""
_QUOTED = re.compile(rb'(?<![^,\r\n])"[^"]*(?:""[^"]*)*(?:"|\Z)')
"""A value in quotes. A quote opens only at the beginning of a value: the one in `19" monitor` is a character."""


class Csv:
    """A Table of CSV files with a header line; all files are read once at the start to find and count the lines."""

    takes_batches = True

    def __init__(
        self, files: Sequence[File], columns: Sequence[str] | None, label: str | None, empty: Any, types: Any
    ) -> None:
        self._headers: dict[str, list[str]] = {}
        self._types = dict(types or {})
        self._empty = dict(empty or {})
        self.blocks = tuple(block for file in files for block in self._split(file))
        self.size = sum(block.rows for block in self.blocks)
        first = files[0].name
        if not self.size:
            raise PreflightFailed(f"{first} has a header and no rows; write it again, or name other files")
        start = self._parse(self.blocks[0], None)
        self._columns = Columns("dtj.data.csv", first, start.schema, columns, label)
        for name, header in self._headers.items():
            for column in self._columns.names:
                if column not in header:
                    raise PreflightFailed(f"{name} has no column {column!r}; it has {', '.join(header[:12])}")
        row_bytes = self._columns.row_bytes()
        self.blocks = tuple(replace(block, size=max(block.size, block.rows * row_bytes)) for block in self.blocks)

    def read(self, block: Block) -> Mapping[str, Any]:
        table = block.file.read_with_retries(lambda: self._parse(block, self._columns))
        if table.num_rows != block.rows:
            raise PreflightFailed(f"{block.file.name} has changed since the job began; do not change data during a job")
        return self._columns.arrays(block.file.name, table, self._empty)

    def signature(self) -> Mapping[str, Any]:
        return self._columns.signature()

    def example(self, columns: Any) -> Any:
        return self._columns.example(columns)

    def _parse(self, block: Block, columns: Columns | None) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        held = block.file.bytes(block.start, block.length)
        types = self._types if columns is None else {**columns.types}
        with explain_read_errors(block.file.name):
            return csv.read_csv(
                pa.BufferReader(held),
                csv.ReadOptions(column_names=self._headers[block.file.name], block_size=len(held) + 1),
                csv.ParseOptions(newlines_in_values=True),
                csv.ConvertOptions(
                    include_columns=None if columns is None else columns.names,
                    column_types=types,
                    strings_can_be_null=False,
                ),
            )

    def _split(self, file: File) -> Iterator[Block]:
        """Return the blocks of a file; each ends with a line outside of quotes."""
        with explain_read_errors(file.name), file.open() as opened:
            header = opened.readline()
            self._headers[file.name] = _names(file.name, header)
            start, held = len(header), b""
            while True:
                more = opened.read(BLOCK)
                held += more
                end = len(held) if not more else _line_end(held)
                if end:
                    yield from self._block(file, start, held[:end])
                    start, held = start + end, held[end:]
                if not more:
                    return
                if len(held) > LONGEST:
                    raise PreflightFailed(
                        f"{file.name} has no end of the line that begins at byte {start} within {LONGEST >> 20} MiB; "
                        "close its quote, or leave the file out"
                    )

    def _block(self, file: File, start: int, held: bytes) -> Iterator[Block]:
        plain = b'"' not in held and b"\n\n" not in held and b"\r" not in held and not held.startswith(b"\n")
        block = Block(file, held.count(b"\n") + (not held.endswith(b"\n")), len(held), start, len(held))
        if not plain:
            rows = self._parse(block, None).num_rows if held.strip() else 0
            block = Block(file, rows, len(held), start, len(held))
        if block.rows:
            yield block


def csv(
    files: Files,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    *,
    types: Mapping[str, Any] | None = None,
    empty: Mapping[str, Any] | None = None,
    storage: Mapping[str, Any] | None = None,
) -> Csv:
    """Read examples from CSV files with a header line: (dict of columns, label), or the dict alone without `label`.

    Types are inferred from the first lines (int64, float64, string); `types` sets them by column, as Arrow names
    ("float32"). `columns`, `empty` and `storage` as for `parquet`.

    Raises:
        PreflightFailed: a file is missing, unreadable or empty, or a column is wrong.
    """
    needs("dtj.data.csv", "pyarrow")
    return Csv(find("dtj.data.csv", files, ".csv", storage), columns, label, empty, _arrow_types(types or {}))


def _arrow_types(types: Mapping[str, Any]) -> dict[str, Any]:
    import pyarrow as pa

    found = {}
    for name, kind in types.items():
        try:
            found[name] = pa.type_for_alias(kind) if isinstance(kind, str) else kind
        except ValueError as error:
            raise PreflightFailed(
                f"dtj.data.csv does not know the type {kind!r} of column {name!r}; use int64, float32, string, …"
            ) from error
    return found


def _names(file: str, header: bytes) -> list[str]:
    import csv

    names = next(csv.reader([header.decode("utf-8-sig").strip("\r\n")]), [])
    if not any(names):
        raise PreflightFailed(f"{file} has no header line; its first line has to name the columns")
    return names


def _line_end(held: bytes) -> int:
    """Return the index after the last newline outside of quotes, or 0. A block starts outside of quotes."""
    import numpy as np

    signs = np.frombuffer(held, np.uint8)
    ends, quotes = np.flatnonzero(signs == ord("\n")), np.flatnonzero(signs == ord('"'))
    before = signs[np.maximum(quotes[::2], 1) - 1]
    if np.isin(before[quotes[::2] > 0], list(b',\r\n"')).all():  # every other one opens: no need to look at each
        outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
        return int(outside[-1]) + 1 if len(outside) else 0
    end = held.rfind(b"\n")
    for start, stop in reversed([found.span() for found in _QUOTED.finditer(held)]):
        if end >= stop:
            break
        if end >= start:
            end = held.rfind(b"\n", 0, start)
    return end + 1
