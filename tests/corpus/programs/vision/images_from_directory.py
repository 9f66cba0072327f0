"""Vision: `image_dataset_from_directory`, augmentation in tf.data, batch normalization."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BAND = 0.04
RANDOM = True
REASON = "batch normalization, and augmentation that tf.data draws in any order"
CONTROL = (
    ('[layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)]', "[]"),
    ("layers.BatchNormalization()", "layers.LayerNormalization()"),
)

keras.utils.set_random_seed(9)

rng = np.random.default_rng(9)
folder = Path(tempfile.mkdtemp())
for kind, colour in (("cats", [200, 120, 60]), ("dogs", [90, 110, 170])):
    (folder / kind).mkdir()
    for number in range(60):
        pixels = np.clip(rng.normal(colour, 60, size=(24, 24, 3)), 0, 255)
        keras.utils.save_img(folder / kind / f"{number}.png", pixels, scale=False)

train_ds, val_ds = keras.utils.image_dataset_from_directory(
    folder, validation_split=0.2, subset="both", seed=1337, image_size=(20, 20), batch_size=16
)
data_augmentation = [layers.RandomFlip("horizontal"), layers.RandomRotation(0.1)]


def augment(images):
    for layer in data_augmentation:
        images = layer(images)
    return images


train_ds = train_ds.map(lambda image, label: (augment(image), label), num_parallel_calls=tf.data.AUTOTUNE)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((20, 20, 3))
x = layers.Rescaling(1.0 / 255)(inputs)
x = layers.Conv2D(16, 3, strides=2, padding="same")(x)
x = layers.BatchNormalization()(x)
x = layers.Activation("relu")(x)
x = layers.SeparableConv2D(24, 3, padding="same")(x)
x = layers.BatchNormalization()(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(1, activation=None)(x)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(3e-4),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(name="acc")],
)
callbacks = [keras.callbacks.ModelCheckpoint("save_at_{epoch}.keras")]
history = model.fit(train_ds, epochs=3, callbacks=callbacks, validation_data=val_ds)
