"""Validation: each process evaluates its share, and the sums are added up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data import feed
from dtj_trainer.loop.trainee import Trainee
from dtj_trainer.running import Session


@dataclass(frozen=True, slots=True)
class EachBatch:
    """Called around each batch that this process evaluates, with its number, and at its end what was found so far."""

    begin: Callable[[int], None]
    end: Callable[[int, dict[str, float]], None]
    enough: Callable[[], bool]
    """Whether the batches so far are all that this process evaluates."""


class Evaluation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(self, trainee: Trainee, session: Session, data: Any, sizes: feed.Batches) -> None:
        self._trainee = trainee
        self._session = session
        self._data = data
        self._sizes = sizes
        self._names: tuple[str, ...] = ()
        self._dataset: Any = None
        self._of_batch: Any = None
        self._of_all: Any = None
        self._over_processes: Any = None

    def run(self, each: EachBatch | None = None) -> Mapping[str, float]:
        """Means and metrics over the whole validation data, names with `val_` before them.

        Without `each` all batches are evaluated in one call, where the strategy allows that.
        """
        if self._dataset is None:
            self._dataset = feed.validation_batches(self._data, self._session, self._sizes)
            self._compile()
        self._trainee.reset_metrics()
        if each is None and self._of_all is not None:
            row = self._of_all(iter(self._dataset)).numpy()
        else:
            row = self._one_by_one(each)
        return {f"val_{name}": value for name, value in {**self._means(row), **self._trainee.metrics()}.items()}

    def _means(self, row: Any) -> dict[str, float]:
        *sums, count = map(float, row)
        return {name: total / max(1.0, count) for name, total in zip(self._names, sums, strict=True)}

    def _one_by_one(self, each: EachBatch | None) -> Any:
        import numpy as np

        row = np.zeros(self._width(self._dataset.element_spec))
        for number, batch in enumerate(self._dataset):
            if each is not None:
                each.begin(number)
            new, accumulated = self._of_batch(batch)
            row += new.numpy()
            if accumulated:
                self._trainee.collect([value.numpy() for value in accumulated])
            if each is not None:
                each.end(number, {**self._means(row), **self._trainee.metrics_here()})
                if each.enough():
                    break
        return row if self._over_processes is None else self._over_processes(row).numpy()

    def _width(self, spec: Any) -> int:
        """How many sums there are, and their names, from a trace for batches of this structure."""
        row, *_ = self._of_batch.get_concrete_function(spec).outputs
        return int(row.shape[0])

    def _compile(self) -> None:
        import tensorflow as tf

        compiled = tf.function(autograph=False, reduce_retracing=True)
        if self._session.counts_apart:
            self._of_batch = compiled(self._apart)
            return
        self._of_batch = compiled(lambda batch: (self._dealt(batch), []))
        self._of_all = compiled(self._all)
        if self._session.workers > 1:
            self._over_processes = compiled(self._summed)

    def _apart(self, batch: Any) -> Any:
        """On one device of this process; the workers of ParameterServer rest meanwhile."""
        sums, count, accumulated = self._trainee.evaluate_apart(batch)
        self._names = tuple(sums)
        return _row(sums, count), accumulated

    def _dealt(self, batch: Any) -> Any:
        """Each of this process's replicas evaluates its part of the batch."""
        import tensorflow as tf

        session, strategy = self._session, self._session.strategy

        def one(batch: Any) -> Any:
            replica = tf.distribute.get_replica_context()
            if session.local_replicas > 1:
                number = replica.replica_id_in_sync_group % session.local_replicas
                batch = tf.nest.map_structure(lambda tensor: tensor[number :: session.local_replicas], batch)
            sums, count = self._trainee.evaluate(batch)
            self._names = tuple(sums)
            return _row(sums, count)

        return tf.add_n(strategy.experimental_local_results(strategy.run(one, args=(batch,))))

    def _all(self, iterator: Any) -> Any:
        """All batches of all processes."""
        import tensorflow as tf

        def body(optional: Any, total: Any) -> Any:
            new = self._dealt(optional.get_value())
            return iterator.get_next_as_optional(), total + new

        width = self._width(iterator.element_spec)
        start = (iterator.get_next_as_optional(), tf.zeros([width], tf.float64))
        _, row = tf.while_loop(lambda optional, _: optional.has_value(), body, start)
        return row if self._over_processes is None else self._summed(row)

    def _summed(self, row: Any) -> Any:
        """Over the processes."""
        import tensorflow as tf

        session, strategy = self._session, self._session.strategy

        def share(part: Any) -> Any:
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, part / session.local_replicas)

        return strategy.experimental_local_results(strategy.run(share, args=(row,)))[0]


def _row(sums: Mapping[str, Any], count: Any) -> Any:
    """Every sum, then the number of examples, as float64."""
    import tensorflow as tf

    return tf.stack([tf.cast(value, tf.float64) for value in (*sums.values(), count)])
