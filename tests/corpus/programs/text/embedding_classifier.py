"""Text: an embedding classifier of reviews; the last batch is shorter than the others, and most words are rare."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(1)
VOCABULARY, LENGTH = 2000, 40

rng = np.random.default_rng(7)
x = np.minimum(rng.zipf(1.3, size=(1000, LENGTH)), VOCABULARY - 1)
y = (np.isin(x, range(10, 400)).sum(axis=1) > 8).astype("float32")
x_train, y_train, x_val, y_val = x[:808], y[:808], x[808:], y[808:]

model = keras.Sequential(
    [
        keras.Input((LENGTH,), dtype="int32"),
        layers.Embedding(VOCABULARY, 16),
        layers.GlobalAveragePooling1D(),
        layers.Dense(16, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=32, epochs=3, validation_data=(x_val, y_val), shuffle=False, verbose=2)
