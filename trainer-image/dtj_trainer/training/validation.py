"""Validation: each process evaluates its share, and the sums are added up."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dtj_trainer.data.adapters.adapter import EMPTY_VALIDATION, get_validation_adapter
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.initialization import Session
from dtj_trainer.training.steps.step_runner import Pace
from dtj_trainer.training.steps.trainable import Trainee


@dataclass(frozen=True, slots=True)
class EachBatch:
    """Called around each batch that this process evaluates, with its number, and at its end what was found so far."""

    begin: Callable[[int], None]
    end: Callable[[int, dict[str, Any]], None]
    enough: Callable[[], bool]
    """Whether the batches so far are all that this process evaluates."""


class Evaluation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(self, trainee: Trainee, session: Session, data: Any, batch_size: BatchSize) -> None:
        self._trainee = trainee
        self._session = session
        self._data = get_validation_adapter(data, session.sharding, batch_size)
        self._names: tuple[str, ...] = ()
        self._dataset: Any = None
        self._of_batch: Any = None
        self._of_several: Any = None
        self._sums: Any = None
        self._pace = Pace()
        self.found: Mapping[str, Any] = {}
        """Of the last run, also where it was left before its end; names without `val_`."""

    @classmethod
    def of(cls, trainee: Trainee, session: Session, data: Any, batch_size: BatchSize) -> "Evaluation | None":
        """The validation of a training; None without data."""
        return None if data is None else cls(trainee, session, data, batch_size)

    def run(self, each: EachBatch | None = None) -> Mapping[str, Any] | None:
        """Means and metrics over the whole validation data, names with `val_` before them; None in every process, after
        the same number of batches, where one was asked to leave meanwhile.

        Processes agree after about as many batches as a call of training steps lasts. Without `each` these are
        evaluated in one call, where the strategy allows that.

        Raises:
            PreflightFailed: there was no example, in every process.
        """
        import numpy as np

        if self._dataset is None:
            self._dataset = self._data.evaluation_dataset()
            self._compile()
        self._trainee.reset_metrics()
        together = each is None and self._of_several is not None
        rows = self._by_several() if together else self._one_by_one(each)
        while True:
            began = time.monotonic()
            row, made, left = next(rows)
            seconds, asked = time.monotonic() - began, self._session.commands.preempted.is_set()
            *total, seconds, made, more, leaving = self._over_processes(np.append(row, [seconds, made, left, asked]))
            self._pace.learn(seconds / max(1, made))
            if not more and not total[-1]:
                raise PreflightFailed(EMPTY_VALIDATION)
            if not more or leaving:
                self.found = {**self._means(total), **self._trainee.metrics()}
                return None if more else {f"val_{name}": value for name, value in self.found.items()}

    def _means(self, row: Any) -> dict[str, float]:
        *sums, count = map(float, row)
        return {name: total / max(1.0, count) for name, total in zip(self._names, sums, strict=True)}

    def _by_several(self) -> Iterator[tuple[Any, int, bool]]:
        """Call by call the sums so far, the batches of that call, and whether there are more here; without end."""
        import tensorflow as tf

        iterator = iter(self._dataset)
        batch, row = iterator.get_next_as_optional(), tf.zeros([self._width(iterator.element_spec)], tf.float64)
        while True:
            made, batch, row = self._of_several(iterator, batch, row, tf.constant(self._pace.count))
            yield row.numpy(), int(made), bool(batch.has_value())

    def _one_by_one(self, each: EachBatch | None) -> Iterator[tuple[Any, int, bool]]:
        """The same, with a call for each batch."""
        import numpy as np

        row, made = np.zeros(self._width(self._dataset.element_spec)), 0
        for number, batch in enumerate(self._dataset):
            if made == self._pace.count:
                yield row, made, True
                made = 0
            if each is not None:
                each.begin(number)
            new, accumulated = self._of_batch(batch)
            row, made = row + new.numpy(), made + 1
            if accumulated:
                self._trainee.collect([value.numpy() for value in accumulated])
            if each is not None:
                each.end(number, {**self._means(row), **self._trainee.metrics_here()})
                if each.enough():
                    break
        while True:
            yield row, made, False
            made = 0

    def _width(self, spec: Any) -> int:
        """How many sums there are, and their names, from a trace for batches of this structure."""
        row, *_ = self._of_batch.get_concrete_function(spec).outputs
        return int(row.shape[0])

    def _over_processes(self, row: Any) -> Any:
        return row if self._sums is None else self._sums(row).numpy()

    def _compile(self) -> None:
        import tensorflow as tf

        compiled = tf.function(autograph=False, reduce_retracing=True)
        if self._session.workers > 1:
            self._sums = compiled(self._summed)
        if self._session.counts_apart:
            self._of_batch = compiled(self._apart)
            return
        self._of_batch = compiled(lambda batch: (self._dealt(batch), []))
        self._of_several = compiled(self._several)

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

    def _several(self, iterator: Any, batch: Any, row: Any, most: Any) -> Any:
        """From `batch` on at most so many: how many there were, the one after them, and `row` with theirs added."""
        import tensorflow as tf

        def body(number: Any, batch: Any, row: Any) -> Any:
            new = self._dealt(batch.get_value())
            return number + 1, iterator.get_next_as_optional(), row + new

        start = (tf.constant(0), batch, row)
        return tf.while_loop(lambda number, batch, _: (number < most) & batch.has_value(), body, start)

    def _summed(self, row: Any) -> Any:
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
