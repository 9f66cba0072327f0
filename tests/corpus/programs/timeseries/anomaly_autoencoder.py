"""Time series: anomalies by the error of a convolutional autoencoder; the threshold comes from predict."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(34)
TIME_STEPS = 24

rng = np.random.default_rng(36)
time = np.arange(620)
values = (np.sin(time / 6) + 0.05 * rng.normal(size=620)).astype("float32")
broken = values.copy()
broken[300:312] += 2.0


def create_sequences(values):
    return np.stack([values[i : i + TIME_STEPS] for i in range(len(values) - TIME_STEPS + 1)])[..., None]


x_train = create_sequences(values)
model = keras.Sequential(
    [
        layers.Input(shape=(x_train.shape[1], x_train.shape[2])),
        layers.Conv1D(filters=16, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1D(filters=8, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(filters=8, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(filters=16, kernel_size=7, padding="same", strides=2, activation="relu"),
        layers.Conv1DTranspose(filters=1, kernel_size=7, padding="same"),
    ]
)
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.002), loss="mse")
history = model.fit(
    x_train,
    x_train,
    epochs=4,
    batch_size=64,
    validation_split=0.1,
    shuffle=False,
    callbacks=[keras.callbacks.EarlyStopping(monitor="val_loss", patience=5, mode="min")],
)
train_error = np.mean(np.abs(model.predict(x_train) - x_train), axis=1)
test = create_sequences(broken)
test_error = np.mean(np.abs(model.predict(test) - test), axis=1)
predictions = test_error
anomalies = test_error > train_error.max()
print("anomalous windows:", int(anomalies.sum()))
assert anomalies[290:310].any()
