"""Reinforcement: an actor and a critic learn from recorded play; two heads, one of them with weights for examples."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(48)

rng = np.random.default_rng(51)
position, speed = rng.uniform(-1, 1, size=500), rng.uniform(-0.1, 0.1, size=500)
states = np.stack([position, speed], axis=1).astype("float32")
actions = (position + 5 * speed > 0).astype("int64")
values = (1 - abs(position)).astype("float32")
skill = rng.uniform(0.1, 1.0, size=500).astype("float32")

inputs = layers.Input(shape=(2,))
common = layers.Dense(24, activation="relu")(inputs)
outputs = {
    "actor": layers.Dense(2, activation="softmax", name="actor")(common),
    "critic": layers.Dense(1, name="critic")(common),
}
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(
    optimizer=keras.optimizers.Lion(learning_rate=1e-3),
    loss={"actor": "sparse_categorical_crossentropy", "critic": "huber"},
    loss_weights={"actor": 1.0, "critic": 0.5},
    weighted_metrics={"actor": ["accuracy"], "critic": ["mae"]},
)
dataset = tf.data.Dataset.from_tensor_slices(
    (states, {"actor": actions, "critic": values[:, None]}, {"actor": skill, "critic": np.ones(500, "float32")})
).batch(48)
history = model.fit(dataset, epochs=4)
