"""From whatever `fit` was given to an iterator that a training step can read."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.sampler import Dealt
from dtj_trainer.data.sharding import Share
from dtj_trainer.data.shuffles import unseeded
from dtj_trainer.errors import PeersNotReady, PreflightFailed
from dtj_trainer.initialization import Session

UNKNOWN, INFINITE = -2, -1
EMPTY_VALIDATION = "the validation data is empty; check its files and filters"


@dataclass(frozen=True, slots=True)
class Batches:
    """Sizes of one global batch."""

    total: int | None
    """Examples of a global batch; None where the dataset decides."""
    given: int | None
    """`global_batch_size` as the caller gave it; None if it gave the per-replica one, or a Dataset."""

    def share(self, session: Session) -> Share:
        total = self.total or 0
        return Share(session.workers, session.rank, total // session.workers, total)


def batches(data: Any, session: Session, global_batch_size: int | None, per_replica_batch_size: int | None) -> Batches:
    """Check the batch sizes against data and replicas.

    Raises:
        PreflightFailed: missing, both given, not divisible by the replicas, or another than a Dataset's batches have;
            or no data.
    """
    _is_data("data", data)
    if not isinstance(data, Pipeline):
        total = _static_batch(data)
        if total is not None:
            _divisible(total, session.replicas)
        if is_dataset(data):
            _agree(data, session.replicas, global_batch_size, per_replica_batch_size)
        return Batches(total if is_dataset(data) else None, None)
    if (global_batch_size is None) == (per_replica_batch_size is None):
        raise PreflightFailed(
            "dtj.data.Pipeline needs a batch size; give exactly one of global_batch_size= and per_replica_batch_size="
        )
    if per_replica_batch_size is not None:
        return Batches(_positive(per_replica_batch_size) * session.replicas, None)
    assert global_batch_size is not None
    _divisible(_positive(global_batch_size), session.replicas)
    return Batches(global_batch_size, global_batch_size)


def training_iterator(
    data: Any, session: Session, sizes: Batches, seed: int, history: Sequence[Dealt], skip: int
) -> Any:
    """As `training_dataset`, being read."""
    return iterator(training_dataset(data, session, sizes, seed, history, skip), session)


def training_dataset(
    data: Any, session: Session, sizes: Batches, seed: int, history: Sequence[Dealt], skip: int
) -> Any:
    """Endless batches of this process.

    `history` tells what is behind. A plain Dataset is moved on by as many examples, where all its batches are of one
    size, else by `skip` batches.

    Raises:
        PreflightFailed: a plain Dataset that each process would shuffle in an order of its own.
    """
    import tensorflow as tf

    if isinstance(data, Pipeline):
        dataset = data.training(sizes.share(session), seed, history)
    else:
        if is_dataset(data) and session.workers > 1 and unseeded(data):
            raise PreflightFailed(
                f"the dataset is shuffled without a seed, so each of {session.workers} processes would read another "
                "order, and examples twice or never; give shuffle(…, seed=1), or a dtj.data.Pipeline"
            )
        if is_dataset(data):
            dataset = _own_part(data.repeat(), session)
            skip = sum(dealt.examples for dealt in history) // sizes.total if sizes.total else skip
        else:
            dataset = _dividing(_call(data, session).repeat(), session.local_replicas)
        if skip:
            warnings.warn(
                f"a plain tf.data.Dataset resumes by reading past {skip} batches; dtj.data.Pipeline jumps there",
                stacklevel=2,
            )
            dataset = dataset.skip(skip)
    return dataset.prefetch(tf.data.AUTOTUNE)


def validation_batches(data: Any, session: Session, sizes: Batches) -> Any:
    """Finite batches of this process, for the validation at an epoch's end."""
    if isinstance(data, Pipeline):
        share = sizes.share(session) if sizes.total else Share(session.workers, session.rank, 128, 128)
        return _untuned(data.validation(share))
    found = _finite(data, session)
    return _untuned(_every_nth(found, session) if found is data else found)


def check_validation(data: Any, session: Session) -> None:
    """Refuse, before anything is trained, what no validation can read to its end.

    Raises:
        PreflightFailed: neither a Pipeline nor a Dataset nor a function, or without end, or known to be empty.
    """
    _is_data("validation", data)
    if isinstance(data, Pipeline):
        return
    found = _finite(data, session)
    if found is data and int(found.cardinality()) == 0:  # of a function's, another process may have some
        raise PreflightFailed(EMPTY_VALIDATION)


def _finite(data: Any, session: Session) -> Any:
    found = data if is_dataset(data) else _call(data, session)
    if int(found.cardinality()) == INFINITE:
        raise PreflightFailed("the validation dataset never ends; give a finite one, without repeat()")
    return found


def _untuned(dataset: Any) -> Any:
    """Without TensorFlow's tuner, unless somebody chose it. Each validation has an iterator of its own, and to let go
    of a tuned one takes, now and then, as long again as it lived: its tuner misses that it is to end (TensorFlow 2.21).
    """
    import tensorflow as tf

    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def epoch_steps(
    data: Any, sizes: Batches, replicas: int, accumulate: int, given: int | None, most: int | None
) -> int | None:
    """Updates in one pass over the data, where its size is known. A Dataset that does not know its length, or which of
    its batches divide, is read for that only where no number of steps is `given`: with one, a last batch that is left
    out may count. It is read no farther than the training of `most` updates comes: it may never end.
    """
    if isinstance(data, Pipeline):
        if data.size is None or not sizes.total:
            return None
        return data.size // (sizes.total * accumulate)
    if not is_dataset(data):
        return None
    cardinality = int(data.cardinality())
    if cardinality == INFINITE or (cardinality == UNKNOWN and given is not None):
        return None
    if given is None and (cardinality == UNKNOWN or (replicas > 1 and _static_batch(data) is None)):
        import tensorflow as tf

        _divisible(_first_batch(data), replicas)
        counted = data.filter(lambda *batch: _length(batch) % replicas == 0)
        if most is not None:
            counted = counted.take(most * accumulate + 1)
        cardinality = int(counted.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1))
        if most is not None and cardinality > most * accumulate:
            return None
    if cardinality == 0:
        raise PreflightFailed("the dataset is empty; check its files and filters")
    return cardinality // accumulate


def check_same(data: Any, session: Session, known_epoch_steps: int | None) -> None:
    """Refuse data of which the processes do not see the same: they would share it wrongly, and wait for one another at
    the end of an epoch for ever. Every process calls it.

    Raises:
        PeersNotReady: this process sees more or less than the chief, as where a file came while the job started.
    """
    if session.workers == 1:
        return
    own = f"{data.size} examples" if isinstance(data, Pipeline) else f"{known_epoch_steps} steps of a pass"
    told = session.board.from_chief(own)
    if told != own:
        raise PeersNotReady(
            f"the chief sees {told} in the data and this process {own}; give every replica the same files, and change "
            "none of them during a job"
        )


def element_spec(data: Any, session: Session, sizes: Batches) -> Any:
    """The structure of one local batch, with an unknown first axis."""
    if isinstance(data, Pipeline):
        return data.element_spec(sizes.share(session))
    return data.element_spec if is_dataset(data) else _call(data, session).element_spec


def _is_data(argument: str, data: Any) -> None:
    if not (isinstance(data, Pipeline) or is_dataset(data) or callable(data)):
        raise PreflightFailed(
            f"{argument} is a {type(data).__name__}; give a dtj.data.Pipeline, a tf.data.Dataset of global batches, or "
            "fn(ctx); for arrays, dtj.data.Pipeline(dtj.data.numpy(x, y))"
        )


def is_dataset(data: Any) -> bool:
    return hasattr(data, "element_spec") and hasattr(data, "cardinality")


def _call(function: Callable[..., Any], session: Session) -> Any:
    dataset = function(input_context(session))
    if not is_dataset(dataset):
        raise PreflightFailed(f"data(ctx) returned {type(dataset).__name__}; it has to return a tf.data.Dataset")
    return dataset


def input_context(session: Session) -> Any:
    """TensorFlow's own description of this process's place among the input pipelines."""
    import tensorflow as tf

    return tf.distribute.InputContext(session.workers, session.rank, session.replicas)


def _own_part(dataset: Any, session: Session) -> Any:
    """Of each global batch the slice of this process; batches that do not divide are left out."""
    import tensorflow as tf

    if session.replicas == 1:
        return dataset

    def own(*batch: Any) -> Any:
        part = _length(batch) // session.workers
        start = part * session.rank
        own_part = tf.nest.map_structure(lambda tensor: tensor[start : start + part], batch)
        return _as_one(own_part, dataset)

    dataset = _dividing(dataset, session.replicas)
    size = _static_batch(dataset)
    dataset = dataset if session.workers == 1 else dataset.map(own, num_parallel_calls=AUTOTUNE_CALLS)
    return dataset if size is None else _shaped(dataset, size // session.workers)


def _dividing(dataset: Any, parts: int) -> Any:
    """The batches that can be cut into `parts` equal ones; where not even the first can, reading it fails with
    PreflightFailed.
    """
    import tensorflow as tf

    size = _static_batch(dataset)
    if size is not None:
        _divisible(size, parts)
    if size is not None or parts == 1:
        return dataset

    def refuse(size: Any) -> bool:
        _divisible(int(size), parts)
        return False

    def even(number: Any, batch: Any) -> Any:
        divides = _length(batch) % parts == 0
        return tf.cond(
            divides | (number > 0),
            lambda: divides,
            lambda: tf.ensure_shape(tf.numpy_function(refuse, [_length(batch)], tf.bool), []),
        )

    return dataset.enumerate().filter(even).map(lambda _, batch: batch, num_parallel_calls=AUTOTUNE_CALLS)


def _length(batch: Any) -> Any:
    import tensorflow as tf

    return tf.shape(tf.nest.flatten(batch)[0], out_type=tf.int64)[0]


AUTOTUNE_CALLS = -1


def _shaped(dataset: Any, batch: int) -> Any:
    import tensorflow as tf

    def fix(*elements: Any) -> Any:
        fixed = tf.nest.map_structure(lambda t: tf.ensure_shape(t, [batch, *t.shape[1:]]), elements)
        return _as_one(fixed, dataset)

    return dataset.map(fix)


def _as_one(parts: Any, dataset: Any) -> Any:
    """The parts that a function given to `dataset.map` got one by one, as the element that they came from."""
    return parts if isinstance(dataset.element_spec, tuple) else parts[0]


def _every_nth(dataset: Any, session: Session) -> Any:
    """Of each batch every nth example, n = processes: nothing is lost, nothing doubled."""
    import tensorflow as tf

    if session.workers == 1:
        return dataset

    def own(*batch: Any) -> Any:
        part = tf.nest.map_structure(lambda tensor: tensor[session.rank :: session.workers], batch)
        return _as_one(part, dataset)

    return dataset.map(own)


def iterator(dataset: Any, session: Session) -> Any:
    """One element a replica. A plain iterator for one replica on the CPU; TensorFlow's distributed one for several, or
    on GPUs.
    """
    import tensorflow as tf

    if session.local_replicas == 1 and not tf.config.list_physical_devices("GPU"):
        return iter(dataset)
    if session.local_replicas > 1:
        dataset = _split(tf, dataset, session.local_replicas)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = dataset.with_options(options)
    return iter(session.strategy.distribute_datasets_from_function(lambda _: dataset))


def _split(tf: Any, dataset: Any, replicas: int) -> Any:
    """Each batch as `replicas` elements in a row."""

    def cut(*batch: Any) -> Any:
        def rows(tensor: Any) -> Any:
            size, *rest = tensor.shape
            share = None if size is None else size // replicas
            shape = tf.concat([[replicas, -1 if share is None else share], tf.shape(tensor)[1:]], 0)
            return tf.ensure_shape(tf.reshape(tensor, shape), [replicas, share, *rest])

        return _as_one(tf.nest.map_structure(rows, batch), dataset)

    return dataset.map(cut).unbatch()


def _static_batch(data: Any) -> int | None:
    if not is_dataset(data):
        return None
    import tensorflow as tf

    shapes = [spec.shape for spec in tf.nest.flatten(data.element_spec) if hasattr(spec, "shape")]
    if any(shape.rank == 0 for shape in shapes):
        raise PreflightFailed("the dataset is not batched; call .batch(global_batch) on it, or give a Pipeline")
    if not shapes or shapes[0].rank is None:
        return None
    return None if shapes[0][0] is None else int(shapes[0][0])


def _agree(data: Any, replicas: int, global_batch_size: int | None, per_replica_batch_size: int | None) -> None:
    """A Dataset has its batches; a size beside it, which scales the learning rate, has to be theirs."""
    sizes = {"global_batch_size": (global_batch_size, 1), "per_replica_batch_size": (per_replica_batch_size, replicas)}
    for name, (size, times) in sizes.items():
        if size is not None and (found := _first_batch(data)) and found != size * times:
            raise PreflightFailed(
                f"{name}={size} makes global batches of {size * times}, and those of the tf.data.Dataset have "
                f"{found}; leave it out, or batch the Dataset so"
            )


def _first_batch(data: Any) -> int:
    """Examples of a Dataset's first batch; 0 where it is empty."""
    return next((int(_length(first)) for first in data.take(1)), 0)


def _divisible(total: int, replicas: int) -> None:
    if total % replicas:
        raise PreflightFailed(
            f"a global batch of {total} cannot be divided among {replicas} replicas; "
            f"use {total // replicas * replicas or replicas} or {(total // replicas + 1) * replicas}"
        )


def _positive(size: int) -> int:
    if size < 1:
        raise PreflightFailed(f"a batch of {size} is impossible; use 1 or more")
    return size
