"""The initial values of variables under MultiWorkerMirrored: the leader's, sent in a few large broadcasts.

TensorFlow sends each variable by a collective of its own when it is made, and waits for it. Between `init()` and the
first `strategy.run` they are only collected, and then sent together
(docs/decisions/040-recovery-in-new-processes.md). Variables made later, or while a function is traced, are sent as
TensorFlow does it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.compat.types import Strategy, Tensor

PACK_BYTES = 32 << 20
SENT: frozenset[str] = frozenset({"bool", "float16", "float32", "float64", "int32", "int64"})
"""Types that a broadcast of TensorFlow carries."""


def broadcast(strategy: Strategy) -> None:
    """Give every variable made so far the leader's value; every process calls it. Only the first time does anything."""
    hooks = compat.variable_hooks(strategy)
    if hooks is not None:
        hooks.before_run(strategy)


def send(strategy: Strategy, variables: Iterable[Any]) -> None:
    """Give variables that were made before the leader's values again; every process calls it with the same ones.

    Does nothing while the first values are collected, which are sent later, and for a strategy of one process.
    """
    hooks = compat.variable_hooks(strategy)
    if hooks is None or hooks.collecting:
        return
    for pack in _packs([variable for variable in variables if variable.dtype.name in SENT]):
        _send(pack, compat.broadcast(strategy))


def mark_restored(strategy: Strategy, variables: Iterable[Any]) -> None:
    """Exclude variables whose values every process has just read from the same checkpoint."""
    hooks = compat.variable_hooks(strategy)
    if isinstance(hooks, InitialValues):
        hooks.leave_out(variables)


class InitialValues:
    """The variables whose initial values are not yet broadcast: VariableHooks of a strategy.

    Every process makes the same variables in the same order, as TensorFlow itself demands.
    """

    def __init__(self) -> None:
        self.collecting = True
        self._own: Tensor = None
        """This process's own initial value of the variable that is being made."""
        self._waiting: list[Any] = []

    def initial_value(self, device: str, given: Mapping[str, Any], broadcast: compat.Broadcast) -> Tensor:
        """Return this process's own value, to be replaced later; the leader's where it cannot wait."""
        import tensorflow as tf

        own = given["initial_value"]
        with tf.device(device):
            own = own() if callable(own) else own
            own = getattr(own, "wrapped_value", own)  # restored while it is made
            own = tf.convert_to_tensor(own, dtype=given.get("dtype"))
        if tf.executing_eagerly() and own.dtype.name in SENT:
            self._own = own
            return own
        return broadcast(own, device, **given)

    def created(self, variable: Any) -> None:
        """Add the variable to the next broadcast, if it has this process's own value."""
        if self._own is not None:
            self._waiting.append(variable)
            self._own = None

    def leave_out(self, variables: Iterable[Any]) -> None:
        """Exclude variables from the broadcast: those of TensorFlow, or of Keras."""
        known = {id(held) for variable in variables for held in (variable, getattr(variable, "value", None))}
        self._waiting = [variable for variable in self._waiting if id(variable) not in known]

    def before_run(self, strategy: Strategy) -> None:
        """Broadcast the collected variables, and stop collecting."""
        if not self.collecting:
            return
        import tensorflow as tf

        self.collecting = False
        waiting, self._waiting = self._waiting, []
        with tf.init_scope():
            for pack in _packs(waiting):
                _send(pack, compat.broadcast(strategy))


def _send(variables: list[Any], broadcast: compat.Broadcast) -> None:
    import tensorflow as tf

    firsts = [compat.parts(variable)[0] for variable in variables]
    device = firsts[0].device
    with tf.device(device):
        own = tf.concat([tf.reshape(first.read_value(), [-1]) for first in firsts], 0)
        agreed = broadcast(own, device)
        values = tf.split(agreed, [variable.shape.num_elements() for variable in variables])
    for variable, value in zip(variables, values, strict=True):
        for part in compat.parts(variable):
            part.assign(tf.reshape(value, part.shape))


def _packs(variables: list[Any]) -> Iterator[list[Any]]:
    """Yield variables of one type each, in their order, of at most PACK_BYTES but for single larger ones."""
    for name in sorted({variable.dtype.name for variable in variables}):
        pack: list[Any] = []
        size = 0
        for variable in variables:
            if variable.dtype.name != name:
                continue
            own = variable.shape.num_elements() * variable.dtype.size
            if pack and size + own > PACK_BYTES:
                yield pack
                pack, size = [], 0
            pack.append(variable)
            size += own
        yield pack
