"""The first values of variables under MultiWorkerMirrored: the leader's, sent in few packs.

TensorFlow sends each variable by a collective of its own when it is made, and waits for it. Between `init()` and the
first `strategy.run` they are only collected, and then sent together
(docs/decisions/040-recovery-in-new-processes.md). Variables made later, or while a function is traced, go TensorFlow's
own way.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

PACK_BYTES = 32 << 20
SENT: frozenset[str] = frozenset({"bool", "float16", "float32", "float64", "int32", "int64"})
"""Types that a broadcast of TensorFlow carries."""


_of: "WeakKeyDictionary[Any, FirstValues]" = WeakKeyDictionary()
"""By strategy."""


def collect(strategy: Any) -> None:
    """From now on, until the first `strategy.run`, a new variable starts with its own process's value."""
    values = _of[strategy] = FirstValues(strategy)
    values.collect()


def known(strategy: Any, variables: Iterable[Any]) -> None:
    """Leave these out: every process has just read the same values of them from a checkpoint."""
    if strategy in _of:
        _of[strategy].leave_out(variables)


def agree(strategy: Any) -> None:
    """Give every variable made so far the leader's value; every process calls it. Only the first time does anything."""
    if strategy in _of:
        _of[strategy].agree()


class FirstValues:
    """Variables whose first values the processes have yet to agree upon.

    Every process makes the same variables in the same order, as TensorFlow itself demands.
    """

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self._open = False
        self._first_value = strategy.extended._get_variable_creator_initial_value  # noqa: SLF001 - no public seam
        """TensorFlow's own way to a first value."""
        self._own: Any = None
        """The process's own first value of the variable that is being made."""
        self._waiting: list[Any] = []

    def collect(self) -> None:
        """Begin."""
        strategy, extended = self._strategy, self._strategy.extended
        create = extended._create_variable  # noqa: SLF001 - no public seam

        def value(replica_id: int, device: Any, primary_var: Any, **kwargs: Any) -> Any:
            if not self._open or replica_id != 0:
                return self._first_value(replica_id=replica_id, device=device, primary_var=primary_var, **kwargs)
            return lambda: self._value(device, kwargs)

        def created(next_creator: Any, **kwargs: Any) -> Any:
            self._own = None
            variable = create(next_creator, **kwargs)
            if self._own is not None:
                self._waiting.append(variable)
                self._own = None
            return variable

        extended._get_variable_creator_initial_value, extended._create_variable = value, created  # noqa: SLF001
        strategy.run = self._agreed(strategy.run)
        self._open = True

    def leave_out(self, variables: Iterable[Any]) -> None:
        """Wait no more for these: TensorFlow's variables, or Keras' around them."""
        known = {id(held) for variable in variables for held in (variable, getattr(variable, "value", None))}
        self._waiting = [variable for variable in self._waiting if id(variable) not in known]

    def agree(self) -> None:
        """Send what waits, and collect no more."""
        if not self._open:
            return
        import tensorflow as tf

        self._open = False
        waiting, self._waiting = self._waiting, []
        with tf.init_scope():
            for pack in _packs(waiting):
                self._send(tf, pack)

    def _value(self, device: Any, kwargs: Any) -> Any:
        import tensorflow as tf

        given = kwargs["initial_value"]
        with tf.device(device):
            own = given() if callable(given) else given
            own = getattr(own, "wrapped_value", own)  # restored while it is made
            own = tf.convert_to_tensor(own, dtype=kwargs.get("dtype"))
        if tf.executing_eagerly() and own.dtype.name in SENT:
            self._own = own
            return own
        return self._sent(own, device, **kwargs)

    def _send(self, tf: Any, variables: list[Any]) -> None:
        firsts = [_parts(variable)[0] for variable in variables]
        device = firsts[0].device
        with tf.device(device):
            own = tf.concat([tf.reshape(first.read_value(), [-1]) for first in firsts], 0)
            agreed = self._sent(own, device)
            values = tf.split(agreed, [variable.shape.num_elements() for variable in variables])
        for variable, value in zip(variables, values, strict=True):
            for part in _parts(variable):
                part.assign(tf.reshape(value, part.shape))

    def _sent(self, own: Any, device: Any, **kwargs: Any) -> Any:
        """The leader's value; every process calls it with its own."""
        kwargs = {**kwargs, "initial_value": own, "dtype": own.dtype}
        return self._first_value(replica_id=0, device=device, primary_var=None, **kwargs)()

    def _agreed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def after(*args: Any, **kwargs: Any) -> Any:
            self.agree()
            return method(*args, **kwargs)

        return after


def _packs(variables: list[Any]) -> Iterator[list[Any]]:
    """Variables of one type each, in their order, of at most PACK_BYTES but for single larger ones."""
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


def _parts(variable: Any) -> tuple[Any, ...]:
    """What holds a variable's value on each of this process's devices."""
    return tuple(variable.values)
