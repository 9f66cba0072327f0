"""Validation: each process evaluates its share, and the accumulators are added up."""

from collections.abc import Mapping
from typing import Any

from dtj_trainer.data import feed
from dtj_trainer.loop.keras_model import KerasModel
from dtj_trainer.running import Session


class Evaluation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(self, trainee: KerasModel, session: Session, data: Any, sizes: feed.Batches) -> None:
        self._trainee = trainee
        self._session = session
        self._data = data
        self._sizes = sizes
        self._function: Any = None
        self._dataset: Any = None

    def run(self) -> Mapping[str, float]:
        """Loss and metrics over the whole validation data, names with `val_` before them."""
        import tensorflow as tf

        if self._function is None:
            self._dataset = feed.validation_batches(self._data, self._session, self._sizes)
            self._function = self._compile_apart(tf) if self._session.counts_apart else self._compile(tf)
        self._trainee.reset_metrics()
        loss, count = self._apart() if self._session.counts_apart else self._function(iter(self._dataset)).numpy()
        metrics = {"loss": float(loss) / max(1.0, float(count)), **self._trainee.metrics()}
        return {f"val_{name}": value for name, value in metrics.items()}

    def _apart(self) -> tuple[float, float]:
        """This process evaluates on one device, each example once; the workers of ParameterServer rest meanwhile."""
        total, examples = 0.0, 0.0
        for batch in self._dataset:
            loss, count, accumulated = self._function(batch)
            total, examples = total + float(loss), examples + float(count)
            self._trainee.collect([value.numpy() for value in accumulated])
        return total, examples

    def _compile_apart(self, tf: Any) -> Any:
        @tf.function(autograph=False, reduce_retracing=True)
        def evaluate(batch: Any) -> Any:
            return self._trainee.evaluate_apart(batch)

        return evaluate

    def _compile(self, tf: Any) -> Any:
        """Sums of loss and examples over all processes; each local batch is dealt out to this process's replicas."""
        session, strategy = self._session, self._session.strategy

        def one(batch: Any) -> tuple[Any, Any]:
            replica = tf.distribute.get_replica_context()
            if replica is None or session.local_replicas == 1:
                return self._trainee.evaluate(batch)
            number = replica.replica_id_in_sync_group % session.local_replicas
            own = tf.nest.map_structure(lambda tensor: tensor[number :: session.local_replicas], batch)
            return self._trainee.evaluate(own)

        @tf.function(autograph=False, reduce_retracing=True)
        def evaluate(iterator: Any) -> Any:
            def body(optional: Any, loss: Any, count: Any) -> Any:
                new_loss, new_count = strategy.run(one, args=(optional.get_value(),))
                losses = strategy.experimental_local_results(new_loss)
                counts = strategy.experimental_local_results(new_count)
                return iterator.get_next_as_optional(), loss + tf.add_n(losses), count + tf.add_n(counts)

            start = (iterator.get_next_as_optional(), tf.constant(0.0), tf.constant(0.0))
            _, loss, count = tf.while_loop(lambda optional, *_: optional.has_value(), body, start)
            row = tf.stack([loss, count])
            if session.workers > 1:

                def summed(part: Any) -> Any:
                    replica = tf.distribute.get_replica_context()
                    return replica.all_reduce(tf.distribute.ReduceOp.SUM, part / session.local_replicas)

                row = strategy.experimental_local_results(strategy.run(summed, args=(row,)))[0]
            return row

        return evaluate
