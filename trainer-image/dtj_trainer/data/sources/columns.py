"""Arrow columns as NumPy arrays."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dtj_trainer.errors import PreflightFailed

TEXT_BYTES = 64
"""Of a short text in memory, about: a Python object, and what points to it."""


class Columns:
    """The selected columns of a table, with their Arrow types."""

    def __init__(self, caller: str, file: str, schema: Any, columns: Sequence[str] | None, label: str | None) -> None:
        names = list(columns) if columns is not None else [name for name in schema.names if name != label]
        self.names = [*dict.fromkeys([*names, *([label] if label is not None else [])])]
        self.features, self.label = names, label
        for name in self.names:
            if name not in schema.names:
                raise PreflightFailed(f"{file} has no column {name!r}; it has {_listed(schema.names)}")
        if not self.names:
            raise PreflightFailed(f"{caller} was given no columns; name at least one")
        self.types = {name: schema.field(name).type for name in self.names}
        for name, kind in self.types.items():
            _numpy_type(file, name, kind)

    def check(self, file: str, schema: Any) -> None:
        """Refuse a file whose columns are not those of the first one."""
        for name, kind in self.types.items():
            if name not in schema.names:
                raise PreflightFailed(f"{file} has no column {name!r}; it has {_listed(schema.names)}")
            found = schema.field(name).type
            if found != kind:
                raise PreflightFailed(
                    f"column {name!r} of {file} is {found} and {kind} in the files before it; write them with one type"
                )

    def row_bytes(self) -> int:
        """Return the least memory of one example, in bytes."""
        kinds = (_numpy_type("", name, kind) for name, kind in self.types.items())
        return sum((TEXT_BYTES if dtype.hasobject else dtype.itemsize) * math.prod(shape) for dtype, shape in kinds)

    def signature(self) -> dict[str, Any]:
        import tensorflow as tf

        found = {}
        for name, kind in self.types.items():
            dtype, shape = _numpy_type("", name, kind)
            found[name] = tf.TensorSpec([None, *shape], tf.string if dtype.hasobject else tf.as_dtype(dtype))
        return found

    def example(self, columns: Any) -> Any:
        features = {name: columns[name] for name in self.features}
        return features if self.label is None else (features, columns[self.label])

    def arrays(self, file: str, table: Any, empty: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of an Arrow table; `empty` gives by column the value that replaces a missing one."""
        return {name: self._array(file, name, table.column(name), empty) for name in self.names}

    def _array(self, file: str, name: str, column: Any, empty: Mapping[str, Any]) -> Any:
        import numpy as np
        import pyarrow as pa

        dtype, shape = _numpy_type(file, name, self.types[name])
        if column.null_count and name in empty:
            column = self._filled(name, column, empty[name])
        if column.null_count and (shape or not np.issubdtype(dtype, np.floating)):
            raise PreflightFailed(
                f"column {name!r} of {file} has empty values; say what stands for them: empty={{{name!r}: …}}"
            )
        if shape:
            held = column.combine_chunks()
            held = pa.concat_arrays(held.chunks) if isinstance(held, pa.ChunkedArray) else held
            for _ in shape:
                held = held.flatten()
                if held.null_count and not pa.types.is_floating(held.type):
                    raise PreflightFailed(
                        f"lists of column {name!r} of {file} have empty values; fill them when they are written, "
                        "or leave the column out (columns=)"
                    )
            return held.to_numpy(zero_copy_only=False).astype(dtype, copy=False).reshape(-1, *shape)
        return column.to_numpy().astype(dtype, copy=False)

    def _filled(self, name: str, column: Any, value: Any) -> Any:
        import pyarrow as pa

        try:
            return column.fill_null(value)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise PreflightFailed(
                f"empty={{{name!r}: {value!r}}} cannot stand in a column of {self.types[name]}; give one of its values"
            ) from error


def _numpy_type(file: str, name: str, kind: Any) -> tuple[Any, tuple[int, ...]]:
    """Return (NumPy type, shape of one value) of an Arrow type."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_fixed_size_list(kind):
        inner, shape = _numpy_type(file, name, kind.value_type)
        return inner, (kind.list_size, *shape)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return np.dtype(kind.to_pandas_dtype()), ()
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(is_text(kind) for is_text in texts):
        return np.dtype(object), ()
    raise PreflightFailed(
        f"column {name!r} of {file} is {kind}, which TensorFlow does not take; convert it, or leave it out (columns=)"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")  # noqa: PLR2004
