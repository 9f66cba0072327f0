"""Protocols for the objects of TensorFlow and Keras that the trainer uses: they have no type hints."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray

Tensor: TypeAlias = Any
"""A tf.Tensor, or what TensorFlow takes for one."""
Structure: TypeAlias = Any
"""Tensors, or their specs, in tuples, lists and dicts: what `tf.nest` opens."""
Array: TypeAlias = "NDArray[Any]"
MetricValues: TypeAlias = "dict[str, float | Array]"
"""Metrics by name, numbers or arrays as in Keras."""


class Variable(Protocol):
    """A tf.Variable."""

    dtype: Any
    shape: Any

    def assign(self, value: Tensor, /) -> Any: ...


class KerasVariable(Protocol):
    """A keras.Variable; `value` is TensorFlow's variable."""

    value: Any
    dtype: str
    shape: tuple[int, ...]
    path: str


class Optimizer(Protocol):
    """A Keras optimizer."""

    built: bool
    iterations: Any
    learning_rate: Any

    def build(self, variables: Sequence[KerasVariable], /) -> None: ...
    def apply(self, gradients: Sequence[Tensor | None], variables: Sequence[KerasVariable], /) -> Any: ...
    def scale_loss(self, loss: Tensor, /) -> Tensor: ...
    def finalize_variable_values(self, variables: Sequence[KerasVariable], /) -> None: ...


class Metric(Protocol):
    """A Keras metric; `variables` are its accumulators."""

    name: str
    variables: Sequence[KerasVariable]

    def update_state(self, *args: Any) -> Any: ...
    def result(self) -> Any: ...
    def reset_state(self) -> None: ...


class Model(Protocol):
    """A compiled Keras model."""

    built: bool
    optimizer: Any
    metrics: Sequence[Any]
    variables: Sequence[KerasVariable]
    trainable_variables: Sequence[Any]
    non_trainable_variables: Sequence[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def compute_loss(self, *args: Any, **kwargs: Any) -> Tensor: ...
    def compute_metrics(self, *args: Any) -> Any: ...
    def load_weights(self, path: str, /) -> None: ...


class Device(Protocol):
    """A physical or logical device."""

    name: str


class Strategy(Protocol):
    """A tf.distribute.Strategy."""

    num_replicas_in_sync: int

    def run(self, function: Callable[..., Any], /, args: tuple[Any, ...] = ()) -> Any: ...
    def reduce(self, how: str, value: Any, axis: int | None) -> Tensor: ...
    def scope(self) -> AbstractContextManager[Any]: ...
    def experimental_local_results(self, value: Any, /) -> tuple[Tensor, ...]: ...
    def distribute_datasets_from_function(self, function: Callable[[Any], Any], /) -> Any: ...


class Dataset(Protocol):
    """A tf.data.Dataset."""

    element_spec: Structure

    def __iter__(self) -> Any: ...
    def cardinality(self) -> Any: ...


class KeyValueStore(Protocol):
    """The key-value store of TensorFlow's coordination service; a key is written once."""

    def set_config_key_value(self, key: str, value: str, /) -> None: ...
    def get_config_key_value(self, key: str, timeout_ms: int, /) -> str | bytes: ...


class Coordinator(Protocol):
    """A tf.distribute.coordinator.ClusterCoordinator."""

    def schedule(self, function: Callable[..., Any], /, args: tuple[Any, ...] = ()) -> Any: ...
    def done(self) -> bool: ...
    def create_per_worker_dataset(self, function: Callable[[], Dataset], /) -> Any: ...
