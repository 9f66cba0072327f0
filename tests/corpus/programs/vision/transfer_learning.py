"""Vision: a pretrained base with a new head; first the head trains, then everything with a low learning rate."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(2)

rng = np.random.default_rng(2)
labels = rng.integers(0, 4, size=420)
images = rng.normal(0, 0.3, size=(420, 16, 16, 3)).astype("float32")
for image, label in zip(images, labels, strict=True):
    image[4 * label : 4 * label + 4, :, label % 3] += 1.0

base = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
    ],
    name="base",
)
rows = keras.Sequential([base, layers.Dense(2)])
rows.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
pretraining = rows.fit(images, labels // 2, batch_size=30, epochs=2, shuffle=False, verbose=2)

base.trainable = False
inputs = keras.Input((16, 16, 3))
features = base(inputs, training=False)
outputs = layers.Dense(4)(features)
model = keras.Model(inputs, outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
head = model.fit(images, labels, batch_size=30, epochs=2, validation_split=0.2, shuffle=False, verbose=2)

base.trainable = True
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss=loss, metrics=["accuracy"])
fine_tuning = model.fit(images, labels, batch_size=30, epochs=2, validation_split=0.2, shuffle=False, verbose=2)
scores = model.evaluate(images, labels, batch_size=30, verbose=0)
