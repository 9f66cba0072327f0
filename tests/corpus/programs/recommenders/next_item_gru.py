"""Recommenders: the next film of a session by a GRU over item embeddings; tf.data, masked steps, top-k metrics."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(51)
num_items, length = 40, 10

rng = np.random.default_rng(54)
start, stride = rng.integers(1, num_items, size=(320, 1)), rng.integers(1, 3, size=(320, 1))
sessions = (start + stride * np.arange(length + 1)) % (num_items - 1) + 1
sessions[:, :4] *= rng.integers(0, 2, size=(320, 1))

dataset = tf.data.Dataset.from_tensor_slices({"history": sessions[:, :-1], "next": sessions[:, -1]})
dataset = dataset.batch(40, drop_remainder=True).map(lambda row: ({"history": row["history"]}, row["next"]))

inputs = {"history": keras.Input((length,), dtype="int32", name="history")}
x = layers.Embedding(num_items, 16, mask_zero=True)(inputs["history"])
x = layers.GRU(16)(x)
model = keras.Model(inputs, layers.Dense(num_items)(x))
model.compile(
    optimizer=keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseTopKCategoricalAccuracy(5), "accuracy"],
)
history = model.fit(dataset, epochs=4, callbacks=[keras.callbacks.TerminateOnNaN()])
scores = model.evaluate(dataset, return_dict=True, verbose=0)
