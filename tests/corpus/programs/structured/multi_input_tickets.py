"""Structured: support tickets with three inputs and two outputs, given as dicts by name, with loss weights."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(6)
num_tags, num_words, num_departments = 12, 500, 4

rng = np.random.default_rng(6)
title_data = rng.integers(0, num_words, size=(320, 8))
body_data = rng.integers(0, num_words, size=(320, 30))
tags_data = rng.integers(0, 2, size=(320, num_tags)).astype("float32")
priority_targets = tags_data[:, :3].mean(axis=1, keepdims=True)
dept_targets = keras.utils.to_categorical(title_data[:, 0] % num_departments, num_departments)

title_input = keras.Input(shape=(None,), name="title")
body_input = keras.Input(shape=(None,), name="body")
tags_input = keras.Input(shape=(num_tags,), name="tags")
title_features = layers.LSTM(16)(layers.Embedding(num_words, 16)(title_input))
body_features = layers.GlobalMaxPooling1D()(layers.Embedding(num_words, 16)(body_input))
x = layers.concatenate([title_features, body_features, tags_input])
priority_pred = layers.Dense(1, name="priority")(x)
department_pred = layers.Dense(num_departments, name="department")(x)
model = keras.Model(
    inputs=[title_input, body_input, tags_input],
    outputs={"priority": priority_pred, "department": department_pred},
)
model.compile(
    optimizer=keras.optimizers.RMSprop(1e-3),
    loss={
        "priority": keras.losses.BinaryCrossentropy(from_logits=True),
        "department": keras.losses.CategoricalCrossentropy(from_logits=True),
    },
    metrics={"department": ["accuracy"]},
    loss_weights={"priority": 1.0, "department": 0.2},
)
history = model.fit(
    {"title": title_data, "body": body_data, "tags": tags_data},
    {"priority": priority_targets, "department": dept_targets},
    epochs=3,
    batch_size=32,
    shuffle=False,
)
