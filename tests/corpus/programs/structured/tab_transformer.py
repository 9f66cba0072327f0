"""Structured: categories as tokens of a transformer, string lookups in the model, weights in tf.data, AUC."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(32)

rng = np.random.default_rng(34)
WORK, SCHOOL = ["private", "state", "none"], ["bachelor", "master", "school", "other"]
work, school = rng.choice(WORK, size=320), rng.choice(SCHOOL, size=320)
hours = rng.normal(40, 8, size=320).astype("float32")
income = ((hours > 40) & (school != "school") | (work == "state")).astype("float32")
weight = rng.uniform(0.5, 1.5, size=320).astype("float32")


def prepare_example(features, target, weight):
    return features, target[:, None], weight[:, None]


data = ({"work": work, "school": school, "hours": hours}, income, weight)
dataset = tf.data.Dataset.from_tensor_slices(data).batch(40).map(prepare_example)

inputs = {
    "work": keras.Input((), dtype="string", name="work"),
    "school": keras.Input((), dtype="string", name="school"),
    "hours": keras.Input((), dtype="float32", name="hours"),
}
tokens = []
for name, vocabulary in (("work", WORK), ("school", SCHOOL)):
    index = layers.StringLookup(vocabulary=vocabulary, mask_token=None, num_oov_indices=0)(inputs[name])
    tokens.append(layers.Embedding(len(vocabulary), 8)(index))
encoded = keras.ops.stack(tokens, axis=1)
attention = layers.MultiHeadAttention(num_heads=2, key_dim=8)(encoded, encoded)
encoded = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([attention, encoded]))
numeric = layers.LayerNormalization(epsilon=1e-6)(
    keras.ops.stack([inputs["hours"] / 40, inputs["hours"] / 10], axis=-1)
)
x = layers.concatenate([layers.Flatten()(encoded), numeric])
x = layers.Dense(16, activation="selu")(x)
model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
model.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=0.003, weight_decay=0.0001),
    loss=keras.losses.BinaryCrossentropy(),
    metrics=[keras.metrics.BinaryAccuracy(name="accuracy"), keras.metrics.AUC(name="auc")],
)
history = model.fit(dataset, epochs=4, validation_data=dataset.take(2))
