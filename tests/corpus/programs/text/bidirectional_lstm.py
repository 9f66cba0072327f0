"""Text: two bidirectional LSTMs over padded sequences with a mask."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(18)
max_features, maxlen = 200, 20

rng = np.random.default_rng(19)
sequences = [rng.integers(1, max_features, size=rng.integers(5, 30)) for _ in range(260)]
targets = np.array([int(sequence[-3:].mean() > 100) for sequence in sequences])
x_train = keras.utils.pad_sequences(sequences[:208], maxlen=maxlen)
x_val = keras.utils.pad_sequences(sequences[208:], maxlen=maxlen)

inputs = keras.Input(shape=(None,), dtype="int32")
x = layers.Embedding(max_features, 16, mask_zero=True)(inputs)
x = layers.Bidirectional(layers.LSTM(8, return_sequences=True))(x)
x = layers.Bidirectional(layers.LSTM(8))(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(
    x_train, targets[:208], batch_size=32, epochs=3, validation_data=(x_val, targets[208:]), shuffle=False
)
