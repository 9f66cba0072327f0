"""Predict clicks from a log in Criteo's format: a wide and deep model whose large table is on parameter servers.

    python ctr.py convert train.txt webhdfs://namenode:9870/clicks     Criteo's text file → Parquet, once
    python ctr.py train hdfs://namenode/clicks                         on a laptop: one process, no cluster
    kubectl apply -f ctr-parameter-server.yaml                         the same, with a chief, 2 workers and 2 ps

fsspec, which writes the files, reaches HDFS without Java under the name webhdfs://; dtj, which reads them, under both.

A line of the log: label, 13 numbers, 26 categories (eight hexadecimal digits), separated by tabs; any but the label may
be missing. The table has a row for each category of each column: its first number is the weight of the wide part, the
others are the embedding of the deep part. The steps are asynchronous and update only the rows they have looked up.
"""

import argparse

import fsspec
import numpy as np
import pyarrow as pa
import tensorflow as tf
from pyarrow import csv, parquet

import dtj

NUMBERS = [f"number{n}" for n in range(13)]
KINDS = [f"kind{n}" for n in range(26)]
WIDTH, HIDDEN = 8, 64


def convert(log: str, target: str, buckets: int) -> None:
    """Write Parquet files of some ten thousand lines each; numbers as log(1 + n), categories as hash buckets."""
    system, folder = fsspec.core.url_to_fs(target)
    system.makedirs(folder, exist_ok=True)
    types = {"label": pa.int32(), **dict.fromkeys(NUMBERS, pa.float32()), **dict.fromkeys(KINDS, pa.string())}
    reader = csv.open_csv(
        log,
        csv.ReadOptions(column_names=list(types), block_size=16 << 20),
        csv.ParseOptions(delimiter="\t"),
        csv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )
    for number, lines in enumerate(reader):
        columns = {"label": lines["label"]}
        for name in NUMBERS:
            columns[name] = np.log1p(np.maximum(np.nan_to_num(lines[name].to_numpy(zero_copy_only=False)), 0))
        for name in KINDS:
            kinds = lines[name].dictionary_encode()
            bucket = np.array([int(kind or "0", 16) % buckets for kind in kinds.dictionary.to_pylist()], "int32")
            columns[name] = bucket[kinds.indices.to_numpy()]
        with system.open(f"{folder}/part-{number:05}.parquet", "wb") as file:
            parquet.write_table(pa.table(columns), file)


def new_state(buckets: int) -> dict[str, tf.Variable]:
    def drawn(seed: int, *shape: int) -> tf.Variable:
        scale = 0.05 if seed == 0 else shape[0] ** -0.5
        return tf.Variable(lambda: scale * tf.random.stateless_normal(shape, [seed, 0]), shape=shape, dtype=tf.float32)

    inputs = len(NUMBERS) + WIDTH * len(KINDS)
    return {
        "table": drawn(0, len(KINDS) * buckets, 1 + WIDTH),
        "hidden": drawn(1, inputs, HIDDEN),
        "hidden_bias": tf.Variable(tf.zeros([HIDDEN])),
        "out": drawn(2, HIDDEN, 1),
        "bias": tf.Variable(tf.zeros([1])),
    }


def clicks(state: dict[str, tf.Variable], columns: dict[str, tf.Tensor], buckets: int) -> tf.Tensor:
    """Return the logits [examples] of a batch of columns."""
    numbers = tf.stack([columns[name] for name in NUMBERS], 1)
    rows = tf.stack([columns[name] + buckets * number for number, name in enumerate(KINDS)], 1)
    looked_up = tf.nn.embedding_lookup(state["table"], rows)
    wide = tf.reduce_sum(looked_up[:, :, 0], 1)
    deep = tf.reshape(looked_up[:, :, 1:], [-1, WIDTH * len(KINDS)])
    hidden = tf.nn.relu(tf.concat([numbers, deep], 1) @ state["hidden"] + state["hidden_bias"])
    return wide + tf.squeeze(hidden @ state["out"], 1) + state["bias"]


def train(folder: str, buckets: int, epochs: int, batch: int, rate: float) -> None:
    dtj.init()

    def step(state: dict[str, tf.Variable], examples: tuple[dict[str, tf.Tensor], tf.Tensor]) -> dict[str, tf.Tensor]:
        columns, label = examples
        # A table that is split over servers is several variables, one for each of them.
        parts = [part for variable in state.values() for part in getattr(variable, "variables", [variable])]
        with tf.GradientTape() as tape:
            logits = clicks(state, columns, buckets)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(label, tf.float32), logits)
            loss = tf.reduce_mean(losses)
        for part, gradient in zip(parts, tape.gradient(loss, parts), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                part.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
            else:
                part.assign_sub(rate * gradient)
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast((logits > 0) == (label > 0), tf.float32))}

    source = dtj.data.parquet(folder, columns=[*NUMBERS, *KINDS], label="label")
    kept: dict[str, tf.Variable] = {}

    def state() -> dict[str, tf.Variable]:
        kept.update(new_state(buckets))
        return kept

    result = dtj.train(step, state=state, data=dtj.data.Pipeline(source), epochs=epochs, batch_size=batch)
    places = {tf.DeviceSpec.from_string(part.device) for part in getattr(kept["table"], "variables", [kept["table"]])}
    where = sorted(f"{place.job} {place.task}" for place in places)
    print(f"loss {result.metrics['loss']:.3f} after {result.step} steps; the table lies on {', '.join(where)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--buckets", type=int, default=100_000, help="rows of the table for each column of kinds")
    verbs = parser.add_subparsers(dest="verb", required=True)
    converting = verbs.add_parser("convert")
    converting.add_argument("log")
    converting.add_argument("target")
    training = verbs.add_parser("train")
    training.add_argument("folder")
    training.add_argument("--epochs", type=int, default=1)
    training.add_argument("--batch", type=int, default=1024)
    training.add_argument("--rate", type=float, default=0.05)
    options = parser.parse_args()
    if options.verb == "convert":
        convert(options.log, options.target, options.buckets)
    else:
        train(options.folder, options.buckets, options.epochs, options.batch, options.rate)


if __name__ == "__main__":
    main()
