"""Structured: a CSV file by `make_csv_dataset`, lookups of strings, a wide and a deep part joined."""

import csv
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(26)

rng = np.random.default_rng(28)
SOILS, AREAS = ["sand", "clay", "peat"], ["north", "south"]
train_file = Path(tempfile.mkdtemp()) / "train.csv"
with train_file.open("w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["elevation", "slope", "soil", "area", "cover"])
    for _ in range(300):
        elevation, slope, soil, area = rng.normal(), rng.normal(), rng.choice(SOILS), rng.choice(AREAS)
        cover = int(elevation + (soil == "clay") - (area == "south") + 0.3 * rng.normal() > 0)
        writer.writerow([f"{elevation:.4f}", f"{slope:.4f}", soil, area, cover])

dataset = tf.data.experimental.make_csv_dataset(
    str(train_file),
    batch_size=30,
    label_name="cover",
    num_epochs=1,
    shuffle=False,
    column_defaults=[0.0, 0.0, "", "", 0],
).map(lambda features, target: (dict(features), target))
dataset = dataset.apply(tf.data.experimental.assert_cardinality(300 // 30))


def create_model_inputs():
    numbers = {name: layers.Input(name=name, shape=(), dtype="float32") for name in ("elevation", "slope")}
    words = {name: layers.Input(name=name, shape=(), dtype="string") for name in ("soil", "area")}
    return numbers | words


def encode_inputs(inputs, embedding_size=None):
    encoded = [keras.ops.expand_dims(inputs[name], -1) for name in ("elevation", "slope")]
    for name, vocabulary in (("soil", SOILS), ("area", AREAS)):
        lookup = layers.StringLookup(vocabulary=vocabulary, mask_token=None, num_oov_indices=0)
        index = lookup(inputs[name])
        if embedding_size:
            encoded.append(layers.Embedding(len(vocabulary), embedding_size)(index))
        else:
            encoded.append(layers.CategoryEncoding(num_tokens=len(vocabulary), output_mode="one_hot")(index[:, None]))
    return layers.concatenate(encoded)


inputs = create_model_inputs()
wide = encode_inputs(inputs)
deep = encode_inputs(inputs, embedding_size=4)
for units in (16, 16):
    deep = layers.Dense(units, activation="relu")(deep)
outputs = layers.Dense(2, activation="softmax")(layers.concatenate([wide, deep]))
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
)
history = model.fit(dataset, epochs=4)
_, accuracy = model.evaluate(dataset, verbose=0)
