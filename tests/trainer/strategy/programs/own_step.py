"""Trains tf.Variables by a step of the program's own: a table of numbers and a line through looked-up values."""

import json
import os
import sys
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

import dtj

ROWS, WIDTH = 1000, 8

session = dtj.init(seed=1)
rng = np.random.default_rng(0)
ids = rng.integers(0, ROWS, size=(480,)).astype("int64")
wanted = ((ids % 7) / 7.0).astype("float32")


def state() -> dict[str, object]:
    start = np.random.default_rng(1).normal(scale=0.1, size=(ROWS, WIDTH)).astype("float32")
    return {
        "table": tf.Variable(lambda: tf.constant(start), name="table", shape=(ROWS, WIDTH), dtype=tf.float32),
        "weights": tf.Variable(tf.ones([WIDTH]) / WIDTH, name="weights"),
        "steps": tf.Variable(0, dtype=tf.int64, trainable=False, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA),
    }


def error(held: dict[str, object], batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    found = tf.nn.embedding_lookup(held["table"], batch[0])
    return tf.reduce_mean(tf.square(tf.linalg.matvec(found, held["weights"]) - batch[1]))


def step(held: dict[str, object], batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    parts = [*getattr(held["table"], "variables", [held["table"]]), held["weights"]]
    with tf.GradientTape() as tape:
        loss = error(held, batch)
    gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, parts)]
    for part, gradient in zip(parts, dtj.all_reduce(gradients), strict=True):
        part.assign_sub(0.5 * gradient)
    return {"loss": loss, "double": 2.0 * loss}


def check(held: dict[str, object], batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {"error": error(held, batch)}


class Two(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.model.stop_training = epoch == 1 and (logs or {})["val_error"] > 0


made: dict[str, object] = {}


def keep() -> dict[str, object]:
    made.update(state())
    return made


result = dtj.train(
    step,
    state=keep,
    data=dtj.data.Pipeline(dtj.data.numpy(ids, wanted)),
    validation_data=dtj.data.Pipeline(dtj.data.numpy(ids[:101], wanted[:101])),
    validation_step=check,
    epochs=4,
    batch_size=24,
    callbacks=[Two()],
)
told: dict[str, object] = {
    "step": result.step,
    "metrics": dict(result.metrics),
    "error": float(error(made, (tf.constant(ids[:101]), tf.constant(wanted[:101])))),
    "shards": len(getattr(made["table"], "variables", [None])),
}
if "TEST_FIT" in os.environ:
    x = np.ones((48, 4), "float32")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    seen: dict[str, object] = {}
    for name, data in {
        "dataset": tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(24),
        "function": lambda ctx: (
            tf.data.Dataset.from_tensor_slices((x, x[:, :1]))
            .shard(ctx.num_input_pipelines, ctx.input_pipeline_id)
            .batch(12)
        ),
    }.items():
        try:
            fitted = dtj.fit(model, data, steps=6)
            updates = int(model.optimizer.iterations.numpy())
            seen[name] = {"step": fitted.step, "loss": fitted.metrics["loss"], "updates": updates}
        except Exception as refusal:  # noqa: BLE001 - told to the test
            seen[name] = str(refusal)
    told["fit"] = seen
if "TEST_TABLE" in os.environ:
    wide = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    wide.compile("sgd", "mse")
    table = dtj.data.Pipeline(
        dtj.data.csv(os.environ["TEST_TABLE"], columns=["a", "b"], label="y"),
        map=lambda row, y: (tf.cast(tf.stack([row["a"], row["b"]]), tf.float32), tf.cast([y], tf.float32)),
    )
    fitted = dtj.fit(wide, table, validation_data=table, epochs=8, batch_size=10)
    told["table"] = {"step": fitted.step, "loss": fitted.metrics["val_loss"]}
    ends: list[str] = []
    arrays = dtj.data.numpy(np.ones((40, 2), "float32"), np.ones((40, 1), "float32"))
    for once in (replace(table, repeat=False), dtj.data.Pipeline(arrays, repeat=False)):
        try:
            dtj.fit(wide, once, steps=100, batch_size=10)
        except Exception as refusal:  # noqa: BLE001 - told to the test
            ends.append(f"{type(refusal).__name__}: {refusal}")
    told["ends"] = ends
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
