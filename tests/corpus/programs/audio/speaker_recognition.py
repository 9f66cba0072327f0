"""Audio: who speaks, from Fourier transforms in tf.data; residual Conv1D, EarlyStopping and ModelCheckpoint."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(37)
SAMPLING_RATE, SPEAKERS = 256, 3

rng = np.random.default_rng(39)
labels = rng.integers(0, SPEAKERS, size=300)
time = np.arange(SAMPLING_RATE) / SAMPLING_RATE
pitch = np.array([20, 33, 47])[labels][:, None] + rng.normal(0, 1, size=(300, 1))
waves = np.sin(2 * np.pi * pitch * time) + 0.5 * np.sin(4 * np.pi * pitch * time) + rng.normal(0, 0.3, size=(300, 256))
waves = waves[..., None].astype("float32")


def audio_to_fft(audio):
    audio = tf.squeeze(audio, axis=-1)
    fft = tf.signal.fft(tf.cast(tf.complex(real=audio, imag=tf.zeros_like(audio)), tf.complex64))
    fft = tf.expand_dims(fft, axis=-1)
    return tf.math.abs(fft[:, : (audio.shape[1] // 2), :])


def paths_and_labels_to_dataset(first, last):
    audio_ds = tf.data.Dataset.from_tensor_slices(waves[first:last])
    label_ds = tf.data.Dataset.from_tensor_slices(labels[first:last])
    return tf.data.Dataset.zip((audio_ds, label_ds))


train_ds = paths_and_labels_to_dataset(0, 250).batch(25)
valid_ds = paths_and_labels_to_dataset(250, 300).batch(25)
train_ds = train_ds.map(lambda x, y: (audio_to_fft(x), y), num_parallel_calls=tf.data.AUTOTUNE)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)
valid_ds = valid_ds.map(lambda x, y: (audio_to_fft(x), y), num_parallel_calls=tf.data.AUTOTUNE)


def residual_block(x, filters, conv_num=2, activation="relu"):
    s = keras.layers.Conv1D(filters, 1, padding="same")(x)
    for _ in range(conv_num - 1):
        x = keras.layers.Conv1D(filters, 3, padding="same")(x)
        x = keras.layers.Activation(activation)(x)
    x = keras.layers.Conv1D(filters, 3, padding="same")(x)
    x = keras.layers.Add()([x, s])
    x = keras.layers.Activation(activation)(x)
    return keras.layers.MaxPool1D(pool_size=2, strides=2)(x)


inputs = keras.layers.Input(shape=(SAMPLING_RATE // 2, 1), name="input")
x = residual_block(inputs, 8, 2)
x = residual_block(x, 16, 2)
x = keras.layers.AveragePooling1D(pool_size=3, strides=3)(x)
x = keras.layers.Flatten()(x)
outputs = keras.layers.Dense(SPEAKERS, activation="softmax", name="output")(x)
model = keras.models.Model(inputs=inputs, outputs=outputs)
model.compile(optimizer=keras.optimizers.Adam(5e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    train_ds,
    epochs=3,
    validation_data=valid_ds,
    callbacks=[
        keras.callbacks.EarlyStopping(patience=10, restore_best_weights=True),
        keras.callbacks.ModelCheckpoint("model.keras", monitor="val_accuracy", save_best_only=True),
    ],
)
scores = model.evaluate(valid_ds)
