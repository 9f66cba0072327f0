"""Audio: spoken commands through a MelSpectrogram layer; one-hot labels with label smoothing."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(39)

rng = np.random.default_rng(42)
labels = rng.integers(0, 4, size=240)
time = np.arange(800) / 1600
sweep = np.array([-200, 0, 200, 400])[labels][:, None]
waves = np.sin(2 * np.pi * (300 * time + sweep * time**2)) + rng.normal(0, 0.2, size=(240, 800))

model = keras.Sequential(
    [
        keras.Input((800,)),
        layers.MelSpectrogram(fft_length=128, sequence_stride=64, sampling_rate=1600, num_mel_bins=16, max_freq=800),
        layers.Reshape((16, -1, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(4),
    ]
)
model.compile(
    optimizer=keras.optimizers.Nadam(2e-3),
    loss=keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
    metrics=[keras.metrics.CategoricalAccuracy(), keras.metrics.F1Score(average="macro")],
)
history = model.fit(
    waves.astype("float32"), keras.utils.to_categorical(labels, 4), epochs=3, validation_split=0.25, shuffle=False
)
