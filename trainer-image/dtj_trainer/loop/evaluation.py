"""Validation: each process evaluates its share, and the sums are added up."""

from collections.abc import Mapping
from typing import Any

from dtj_trainer.data import feed
from dtj_trainer.loop.trainee import Trainee
from dtj_trainer.running import Session


class Evaluation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(self, trainee: Trainee, session: Session, data: Any, sizes: feed.Batches) -> None:
        self._trainee = trainee
        self._session = session
        self._data = data
        self._sizes = sizes
        self._names: tuple[str, ...] = ()
        self._function: Any = None
        self._dataset: Any = None

    def run(self) -> Mapping[str, float]:
        """Means and metrics over the whole validation data, names with `val_` before them."""
        import tensorflow as tf

        apart = self._session.counts_apart
        if self._function is None:
            self._dataset = feed.validation_batches(self._data, self._session, self._sizes)
            self._function = self._compile_apart(tf) if apart else self._compile(tf)
        self._trainee.reset_metrics()
        *sums, count = self._sum_apart() if apart else map(float, self._function(iter(self._dataset)).numpy())
        means = {name: total / max(1.0, count) for name, total in zip(self._names, sums, strict=True)}
        return {f"val_{name}": value for name, value in {**means, **self._trainee.metrics()}.items()}

    def _sum_apart(self) -> list[float]:
        """This process evaluates on one device, each example once; the workers of ParameterServer rest meanwhile."""
        import numpy as np

        total: Any = 0.0
        for batch in self._dataset:
            row, accumulated = self._function(batch)
            total = total + row.numpy()
            self._trainee.collect([value.numpy() for value in accumulated])
        return [float(value) for value in np.atleast_1d(total)]

    def _compile_apart(self, tf: Any) -> Any:
        @tf.function(autograph=False, reduce_retracing=True)
        def evaluate(batch: Any) -> Any:
            sums, count, accumulated = self._trainee.evaluate_apart(batch)
            self._names = tuple(sums)
            return _row(tf, sums, count), accumulated

        return evaluate

    def _compile(self, tf: Any) -> Any:
        """Sums over all processes; each local batch is dealt out to this process's replicas."""
        session, strategy = self._session, self._session.strategy

        def one(batch: Any) -> Any:
            replica = tf.distribute.get_replica_context()
            if session.local_replicas > 1:
                number = replica.replica_id_in_sync_group % session.local_replicas
                batch = tf.nest.map_structure(lambda tensor: tensor[number :: session.local_replicas], batch)
            sums, count = self._trainee.evaluate(batch)
            self._names = tuple(sums)
            return _row(tf, sums, count)

        def local(batch: Any) -> Any:
            return tf.add_n(strategy.experimental_local_results(strategy.run(one, args=(batch,))))

        def width(iterator: Any) -> int:
            """How many sums there are, from a trace beside the loop."""
            return int(
                tf.function(local, autograph=False).get_concrete_function(iterator.element_spec).outputs[0].shape[0]
            )

        @tf.function(autograph=False, reduce_retracing=True)
        def evaluate(iterator: Any) -> Any:
            def body(optional: Any, total: Any) -> Any:
                new = local(optional.get_value())
                return iterator.get_next_as_optional(), total + new

            start = (iterator.get_next_as_optional(), tf.zeros([width(iterator)], tf.float64))
            _, row = tf.while_loop(lambda optional, _: optional.has_value(), body, start)
            if session.workers > 1:

                def summed(part: Any) -> Any:
                    replica = tf.distribute.get_replica_context()
                    return replica.all_reduce(tf.distribute.ReduceOp.SUM, part / session.local_replicas)

                row = strategy.experimental_local_results(strategy.run(summed, args=(row,)))[0]
            return row

        return evaluate


def _row(tf: Any, sums: Mapping[str, Any], count: Any) -> Any:
    """Every sum, then the number of examples, as float64."""
    return tf.stack([tf.cast(value, tf.float64) for value in (*sums.values(), count)])
