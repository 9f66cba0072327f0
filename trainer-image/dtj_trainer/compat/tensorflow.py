"""All uses of private names of TensorFlow, each with the version that has it.

`check` reports missing names at start-up. Functions here do without a private name where they can.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, Protocol

from dtj_trainer.compat.types import Dataset, KeyValueStore, Strategy, Tensor, Variable
from dtj_trainer.errors import PreflightFailed

SUPPORTED: Final = "2.20 or 2.21"
NEEDED: Final[Mapping[str, tuple[str, str]]] = {
    "several processes": (
        "tensorflow.python.distribute.collective_all_reduce_strategy",
        "CollectiveAllReduceExtended._get_variable_creator_initial_value",
    ),
    "replicas on logical CPUs": (
        "tensorflow.python.distribute.collective_all_reduce_strategy",
        "CollectiveAllReduceExtended._initialize_local_devices",
    ),
    "CentralStorage": ("tensorflow.python.distribute.ps_values", "AggregatingVariable"),
    "data sources in Python": ("tensorflow.python.ops.script_ops", "_py_funcs._funcs"),
    "finding an unseeded shuffle": ("tensorflow.python.data.ops.dataset_ops", "DatasetV2._as_serialized_graph"),
    "telling whether a program has set a seed": ("tensorflow.python.eager.context", "global_seed"),
    "texts between processes": ("tensorflow.python.eager.context", "Context.get_config_key_value"),
}
"""What is needed for something, by what it is needed for: a module, and a name in it."""


def check() -> None:
    """Refuse a TensorFlow without one of the NEEDED names. All of these modules are part of `import tensorflow`.

    Raises:
        PreflightFailed: names what is missing and what it is for.
    """
    for purpose, (module, name) in NEEDED.items():
        try:
            attrgetter(name)(import_module(module))
        except (ImportError, AttributeError):
            import tensorflow as tf

            raise PreflightFailed(
                f"TensorFlow {tf.__version__} has no {module}.{name}, which is needed for {purpose}; "
                f"use TensorFlow {SUPPORTED}"
            ) from None


# Seeds and devices ----------------------------------------------------------------------------------------------------


def has_global_seed() -> bool:
    """Return whether the program has called tf.random.set_seed, or keras.utils.set_random_seed. Seen in 2.21."""
    from tensorflow.python.eager import context

    return context.global_seed() is not None


# Data -----------------------------------------------------------------------------------------------------------------


def dataset_graph(dataset: Dataset) -> Any:
    """Return the GraphDef of a dataset. Seen in 2.21."""
    import tensorflow as tf

    return tf.compat.v1.GraphDef.FromString(dataset._as_serialized_graph().numpy())  # type: ignore[attr-defined]  # noqa: SLF001


def register_python_functions(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Register functions for tf.raw_ops.PyFunc under given names; the public API chooses the names itself.

    TensorFlow holds weak references only. Seen in 2.21.
    """
    from tensorflow.python.ops import script_ops

    script_ops._py_funcs._funcs.update(functions)  # noqa: SLF001


def without_conversion(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for `register_python_functions`; the op takes the arrays that it returns without a copy.

    For others TensorFlow 2.21 first makes sure of each that it is an array, and parses the version of NumPy for that:
    0.1 ms a column.
    """
    from tensorflow.python.ops import script_ops

    class AsTheyAre(script_ops.EagerFunc):
        def __call__(self, _device: Any, _token: Any, args: Any) -> Any:
            return self._func(*args)

    return AsTheyAre(function, None, is_grad_func=False)


# Checkpoints ----------------------------------------------------------------------------------------------------------


def checkpoint_tensors(checkpoint: Any) -> Iterator[tuple[str, str, Tensor]] | None:
    """Return name, slice and value of everything in a tf.train.Checkpoint.

    A slice is empty but for partitioned variables.

    None if TensorFlow has to write something itself, or returns no tensors. Seen in 2.21.
    """
    gather = getattr(getattr(checkpoint, "_saver", None), "_gather_serialized_tensors", None)
    if gather is None:
        return None
    serialized, _, registered, _ = gather()
    return None if any(registered.values()) else _named_tensors(serialized)


def _named_tensors(serialized: Mapping[Any, Mapping[str, Any]]) -> Iterator[tuple[str, str, Tensor]]:
    for tensors in serialized.values():
        for key, pieces in tensors.items():
            for piece, found in (pieces if isinstance(pieces, dict) else {"": pieces}).items():
                if not hasattr(found, "slice_spec"):
                    yield key, piece.strip(), found
                elif (value := found.tensor) is not None:
                    yield found.name, found.slice_spec.strip(), value


# Several processes ----------------------------------------------------------------------------------------------------


def key_value_store() -> KeyValueStore:
    """Return the store of the coordination service of this process's cluster. Seen in 2.21."""
    from tensorflow.python.eager import context

    store: KeyValueStore = context.context()
    return store


def configure_coordination_service(
    jobs: Mapping[str, int], *, leader: str, heartbeat_seconds: float, register_seconds: int
) -> None:
    """Detect a frozen or unreachable peer within `heartbeat_seconds` instead of TensorFlow's ten.

    `jobs` are roles with their numbers of tasks. Call it before the strategy is built. TensorFlow has no public setting
    for this; without the private one, its default is used. Seen in 2.21.
    """
    try:
        from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
        from tensorflow.python.eager import context

        context.context().configure_coordination_service(
            service_type="standalone",
            service_leader=f"/job:{leader}/replica:0/task:0",
            heartbeat_timeout_in_ms=int(heartbeat_seconds * 1000),
            cluster_register_timeout_in_ms=register_seconds * 1000,
            coordinated_jobs=[
                coordination_config_pb2.CoordinatedJob(name=role, num_tasks=tasks) for role, tasks in jobs.items()
            ],
        )
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        warnings.warn(
            f"this TensorFlow does not take a heartbeat time ({error}); a frozen peer is noticed after its default",
            stacklevel=2,
        )


class VariableHooks(Protocol):
    """The hooks of a MultiWorkerMirrored strategy: called for every new variable, and before each `run`."""

    collecting: bool
    """Whether first values are asked for."""

    def initial_value(self, device: str, given: Mapping[str, Any], broadcast: "Broadcast", /) -> Tensor:
        """Return the initial value of a variable, from the arguments of its creator."""

    def created(self, variable: Variable, /) -> None:
        """Handle a new variable."""

    def before_run(self, strategy: Strategy, /) -> None:
        """Handle the start of `strategy.run`."""


class Broadcast(Protocol):
    """A broadcast: returns the leader's value; every process calls it with its own."""

    def __call__(self, own: Tensor, device: str, /, **given: Any) -> Tensor: ...


def multi_worker_strategy(options: Any, hooks: VariableHooks, *, logical_cpus: int | None) -> Strategy:
    """Return a tf.distribute.MultiWorkerMirroredStrategy whose variables get their initial values from `hooks`.

    Without a GPU it has a replica on each of `logical_cpus`; TensorFlow itself uses one CPU, and has no setting for
    that. Seen in 2.21.
    """
    strategy: Strategy = _multi_worker_strategy()(options, hooks, logical_cpus)
    return strategy


def variable_hooks(strategy: Strategy) -> VariableHooks | None:
    """Return the hooks of a strategy made by `multi_worker_strategy`; None of any other."""
    return getattr(strategy, "variable_hooks", None)


def broadcast(strategy: Strategy) -> Broadcast:
    """Return the broadcast function of a strategy made by `multi_worker_strategy`."""
    found: Broadcast = strategy.extended.broadcast  # type: ignore[attr-defined]
    return found


@cache
def _multi_worker_strategy() -> Any:
    import tensorflow as tf
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

    class Extended(CollectiveAllReduceExtended):
        """The extended strategy of TensorFlow, with our devices and initial values."""

        def __init__(self, strategy: Any, options: Any, hooks: VariableHooks, logical_cpus: int | None) -> None:
            self._hooks = hooks
            self._logical_cpus = logical_cpus
            super().__init__(strategy, cluster_resolver=None, communication_options=options)

        def _initialize_local_devices(self, cluster_resolver: Any, worker_device: str) -> tuple[Sequence[str], str]:
            devices, kind = super()._initialize_local_devices(cluster_resolver, worker_device)
            if kind == "CPU" and self._logical_cpus is not None:
                devices = tuple(f"{worker_device}/device:CPU:{number}" for number in range(self._logical_cpus))
            return devices, kind

        def _get_variable_creator_initial_value(
            self, replica_id: int, device: Any, primary_var: Any, **kwargs: Any
        ) -> Any:
            if not self._hooks.collecting or replica_id != 0:
                return super()._get_variable_creator_initial_value(replica_id, device, primary_var, **kwargs)
            return lambda: self._hooks.initial_value(device, kwargs, self.broadcast)

        def _create_variable(self, next_creator: Any, **kwargs: Any) -> Any:
            variable = super()._create_variable(next_creator, **kwargs)
            self._hooks.created(variable)
            return variable

        def broadcast(self, own: Tensor, device: str, /, **given: Any) -> Tensor:
            given = {**given, "initial_value": own, "dtype": own.dtype}
            return super()._get_variable_creator_initial_value(0, device, None, **given)()

    class MultiWorkerMirroredStrategy(tf.distribute.MultiWorkerMirroredStrategy):
        """The strategy of TensorFlow, which calls the hooks before each run."""

        def __init__(self, options: Any, hooks: VariableHooks, logical_cpus: int | None) -> None:
            self.variable_hooks = hooks
            tf.distribute.Strategy.__init__(self, Extended(self, options, hooks, logical_cpus))

        def run(self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            self.variable_hooks.before_run(self)
            return tf.distribute.MultiWorkerMirroredStrategy.run(self, fn, args, kwargs, options)

    return MultiWorkerMirroredStrategy


# Variables ------------------------------------------------------------------------------------------------------------


def central_storage_variable() -> type[Any]:
    """Return the type of variables that CentralStorage creates. Seen in 2.21."""
    from tensorflow.python.distribute import ps_values

    found: type[Any] = ps_values.AggregatingVariable
    return found


def parts(variable: Any) -> tuple[Any, ...]:
    """Return the variables on this process's devices of which one of a strategy is made. Seen in 2.21."""
    return tuple(variable.values) if hasattr(variable, "values") else (variable._v,)  # noqa: SLF001
