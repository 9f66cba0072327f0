"""Parquet files as a source: only the selected columns are read, row group by row group."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dtj_trainer.data.sources.columns import Columns
from dtj_trainer.data.sources.files import File, Files, explain_read_errors, find, needs
from dtj_trainer.data.sources.table import Block
from dtj_trainer.errors import PreflightFailed

FOOTERS_AT_ONCE = 8


class Parquet:
    """A Table of Parquet files; sizes come from their footers."""

    takes_batches = True

    def __init__(self, files: Sequence[File], columns: Sequence[str] | None, label: str | None, empty: Any) -> None:
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            self._footers = dict(zip((file.name for file in files), pool.map(_footer, files), strict=True))
        first = files[0].name
        self._columns = Columns(
            "dtj.data.parquet", first, self._footers[first].schema.to_arrow_schema(), columns, label
        )
        for name, footer in self._footers.items():
            self._columns.check(name, footer.schema.to_arrow_schema())
        self._empty = dict(empty or {})
        self.blocks = tuple(block for file in files for block in self._groups(file))
        self.size = sum(block.rows for block in self.blocks)
        if not self.size:
            raise PreflightFailed(f"{first} has no rows; write it again, or name other files")

    def read(self, block: Block) -> Mapping[str, Any]:
        return block.file.read_with_retries(lambda: self._read(block))

    def signature(self) -> Mapping[str, Any]:
        return self._columns.signature()

    def example(self, columns: Any) -> Any:
        return self._columns.example(columns)

    def _read(self, block: Block) -> Mapping[str, Any]:
        from pyarrow import parquet

        with explain_read_errors(block.file.name), block.file.for_arrow() as file:
            footer = self._footers[block.file.name]
            whole = parquet.ParquetFile(file, metadata=footer, pre_buffer=True, page_checksum_verification=True)
            table = whole.read_row_group(block.start, columns=self._columns.names)
        return self._columns.arrays(block.file.name, table, self._empty)

    def _groups(self, file: File) -> list[Block]:
        footer = self._footers[file.name]
        wanted, row_bytes = set(self._columns.names), self._columns.row_bytes()
        found = []
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            chunks = (group.column(c) for c in range(group.num_columns))
            size = sum(c.total_uncompressed_size for c in chunks if c.path_in_schema.split(".")[0] in wanted)
            if group.num_rows:
                found.append(Block(file, group.num_rows, max(size, group.num_rows * row_bytes), number))
        return found


def parquet(
    uri_or_files: Files,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    *,
    empty: Mapping[str, Any] | None = None,
    storage: Mapping[str, Any] | None = None,
) -> Parquet:
    """Read examples from Parquet: (dict of columns, label), or the dict alone without `label`.

    `columns` defaults to all but the label. Files are paths, directories, patterns, or URIs that fsspec knows
    (hdfs:// goes through WebHDFS, gs:// and s3:// through pyarrow); `storage` are options of fsspec, or pyarrow.fs.
    `empty` gives by column the value that replaces a missing one; the default in columns of floats is NaN.

    Raises:
        PreflightFailed: a file is missing, unreadable or empty, or a column is wrong.
    """
    needs("dtj.data.parquet", "pyarrow")
    return Parquet(find("dtj.data.parquet", uri_or_files, ".parquet", storage), columns, label, empty)


def _footer(file: File) -> Any:
    from pyarrow import parquet

    def read() -> Any:
        with explain_read_errors(file.name), file.for_arrow() as opened:
            return parquet.read_metadata(opened)

    return file.read_with_retries(read)
