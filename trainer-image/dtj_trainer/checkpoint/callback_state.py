"""The state of callbacks in a checkpoint: of those that Keras ships, and of those with `get_state` and `set_state`."""

import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.errors import UserError

ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_weights", "best_epoch"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "ModelCheckpoint": ("best", *compat.BATCH_COUNTERS),
    "OrbaxCheckpoint": ("best", *compat.BATCH_COUNTERS),
}
"""What the callbacks of Keras remember, by class; a subclass remembers that too."""

Numbered = Mapping[tuple[str, int], Any]
"""Callbacks by the name of their class and their number among those of this class."""


@dataclass(frozen=True, slots=True)
class CallbackState:
    """What a callback remembers: numbers, strings, None, lists, tuples, dicts and arrays."""

    kind: str
    """The name of its class."""
    number: int
    """Its number among the callbacks of this class, from 0."""
    attributes: Mapping[str, Any]
    """What a callback of Keras remembers, by attribute."""
    own: Any = None
    """What its `get_state` has returned."""
    file_bytes: int | None = None
    """The size of the file of a CSVLogger."""


def numbered(callbacks: Sequence[Any]) -> Numbered:
    """Return callbacks by the name of their class and their number among those of this class."""
    counts: Counter[str] = Counter()
    found = {}
    for callback in callbacks:
        kind = type(callback).__qualname__
        found[kind, counts[kind]] = callback
        counts[kind] += 1
    return found


def callback_states(callbacks: Numbered) -> tuple[CallbackState, ...]:
    """Return what callbacks remember; of those without any state, nothing."""
    states = [
        CallbackState(
            kind,
            number,
            {name: getattr(callback, name) for name in _attributes(callback) if hasattr(callback, name)},
            callback.get_state() if hasattr(callback, "get_state") else None,
            _file_bytes(callback),
        )
        for (kind, number), callback in callbacks.items()
    ]
    return tuple(each for each in states if each.attributes or each.own is not None or each.file_bytes is not None)


def set_callback_states(callbacks: Numbered, states: Sequence[CallbackState]) -> None:
    """Give callbacks what they remembered at a checkpoint; those without a state there keep what they have."""
    for callback, state in _matched(callbacks, states):
        vars(callback).update(state.attributes)
        if state.own is not None and hasattr(callback, "set_state"):
            callback.set_state(state.own)


@contextmanager
def continued_files(callbacks: Numbered, states: Sequence[CallbackState]) -> Iterator[None]:
    """Remove from the files of CSVLoggers the rows that are past the checkpoint, and have them opened for more."""
    opened = []
    for callback, state in _matched(callbacks, states):
        if state.file_bytes is None or not (path := Path(callback.filename)).exists():
            continue
        os.truncate(path, min(state.file_bytes, path.stat().st_size))
        opened.append((callback, callback.append))
        callback.append = True
    yield
    for callback, appends in opened:
        callback.append = appends


def to_json(states: Sequence[CallbackState], arrays: list[Any]) -> list[dict[str, Any]]:
    """Return states as JSON; arrays are appended to `arrays`, where the JSON refers to them.

    Raises:
        UserError: a callback remembers something that a checkpoint cannot hold.
    """
    return [
        {
            "kind": each.kind,
            "number": each.number,
            "attributes": {name: _encode(value, arrays, each) for name, value in each.attributes.items()},
            "own": _encode(each.own, arrays, each),
            "file_bytes": each.file_bytes,
        }
        for each in states
    ]


def from_json(found: Sequence[Mapping[str, Any]], arrays: Sequence[Any]) -> tuple[CallbackState, ...]:
    """Return the states that `to_json` was given."""
    return tuple(
        CallbackState(
            each["kind"],
            each["number"],
            {name: _decode(value, arrays) for name, value in each["attributes"].items()},
            _decode(each["own"], arrays),
            each["file_bytes"],
        )
        for each in found
    )


def pack_arrays(arrays: Sequence[Any]) -> bytes:
    """Return arrays as the bytes of an uncompressed .npz file."""
    import numpy as np

    file = io.BytesIO()
    np.savez(file, **{str(number): each for number, each in enumerate(arrays)})
    return file.getvalue()


def unpack_arrays(content: bytes) -> list[Any]:
    """Return the arrays that `pack_arrays` was given."""
    import numpy as np

    with np.load(io.BytesIO(content), allow_pickle=False) as found:
        return [found[str(number)] for number in range(len(found.files))]


def _attributes(callback: Any) -> list[str]:
    return [name for kind in type(callback).__mro__ for name in ATTRIBUTES.get(kind.__name__, ())]


def _file_bytes(callback: Any) -> int | None:
    """Return the size of the local file of a CSVLogger; None for other callbacks."""
    import keras

    if not isinstance(callback, keras.callbacks.CSVLogger) or not Path(callback.filename).is_file():
        return None
    return Path(callback.filename).stat().st_size


def _matched(callbacks: Numbered, states: Sequence[CallbackState]) -> list[tuple[Any, CallbackState]]:
    return [(callbacks[each.kind, each.number], each) for each in states if (each.kind, each.number) in callbacks]


def _encode(value: Any, arrays: list[Any], state: CallbackState) -> Any:
    """Return a value as JSON; lists, dicts and arrays as a word and their content."""
    import numpy as np

    if value is None or (isinstance(value, int | float | str) and not isinstance(value, np.generic)):
        return value
    if isinstance(value, list | tuple):
        return ["list" if isinstance(value, list) else "tuple", [_encode(each, arrays, state) for each in value]]
    if isinstance(value, Mapping):
        return ["dict", [[_encode(key, arrays, state), _encode(each, arrays, state)] for key, each in value.items()]]
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind not in "biufcV":
        raise UserError(
            f"the callback {state.kind} remembers {value!r:.60}, which a checkpoint cannot hold; have its get_state "
            "return numbers, strings, lists, dicts and arrays"
        )
    arrays.append(array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array)  # bfloat16
    return ["array", [len(arrays) - 1, array.dtype.name]]


def _decode(value: Any, arrays: Sequence[Any]) -> Any:
    import numpy as np

    if not isinstance(value, list):
        return value
    kind, content = value
    if kind == "array":
        number, dtype = content
        return arrays[number].view(np.dtype(dtype))[()]
    if kind == "dict":
        return {_decode(key, arrays): _decode(each, arrays) for key, each in content}
    items = [_decode(each, arrays) for each in content]
    return tuple(items) if kind == "tuple" else items
