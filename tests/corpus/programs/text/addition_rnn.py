"""Text: an RNN learns to add; the program calls fit in a loop, one epoch each time."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)
DIGITS, MAXLEN, CHARS = 2, 5, "0123456789+ "

rng = np.random.default_rng(21)
index = {character: i for i, character in enumerate(CHARS)}


def encode(text, length):
    return np.eye(len(CHARS))[[index[character] for character in text.ljust(length)]]


pairs = rng.integers(0, 100, size=(520, 2))
x = np.stack([encode(f"{a}+{b}"[::-1], MAXLEN) for a, b in pairs])
y = np.stack([encode(str(a + b), DIGITS + 1) for a, b in pairs])
x_train, y_train, x_val, y_val = x[:480], y[:480], x[480:], y[480:]

model = keras.Sequential()
model.add(layers.Input((MAXLEN, len(CHARS))))
model.add(layers.LSTM(24))
model.add(layers.RepeatVector(DIGITS + 1))
model.add(layers.LSTM(24, return_sequences=True))
model.add(layers.Dense(len(CHARS), activation="softmax"))
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])

histories = []
for epoch in range(1, 4):
    print("Iteration", epoch)
    histories.append(
        model.fit(x_train, y_train, batch_size=32, epochs=1, validation_data=(x_val, y_val), shuffle=False, verbose=2)
    )
    guess = np.argmax(model.predict(x_val[:3], verbose=0), axis=-1)
    for question, answer in zip(pairs[480:483], guess, strict=True):
        print("Q", "+".join(map(str, question)), "A", "".join(CHARS[i] for i in answer))
