"""Vision: an autoencoder whose code a custom layer makes sparse by `add_loss`; images are their own target."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(3)


class SparseCode(layers.Layer):
    """Adds the mean size of the code to the loss."""

    def __init__(self, rate, **kwargs):
        super().__init__(**kwargs)
        self.rate = rate

    def call(self, code):
        self.add_loss(self.rate * ops.mean(ops.abs(code)))
        return code


rng = np.random.default_rng(3)
row, column = np.mgrid[0:12, 0:12]
centre = rng.uniform(3, 9, size=(500, 2, 1, 1))
images = np.exp(-((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2) / 6)[..., None].astype("float32")

inputs = keras.Input((12, 12, 1))
hidden = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
hidden = layers.Flatten()(hidden)
code = SparseCode(1e-2, name="code")(layers.Dense(16, activation="relu")(hidden))
hidden = layers.Dense(6 * 6 * 8, activation="relu")(code)
hidden = layers.Reshape((6, 6, 8))(hidden)
outputs = layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid")(hidden)
autoencoder = keras.Model(inputs, outputs)
autoencoder.compile(optimizer="adam", loss="binary_crossentropy")
history = autoencoder.fit(
    images[:420], images[:420], epochs=3, batch_size=40, validation_data=(images[420:], images[420:]), shuffle=False
)
encoder = keras.Model(inputs, code)
predictions = encoder.predict(images[420:], verbose=0)
