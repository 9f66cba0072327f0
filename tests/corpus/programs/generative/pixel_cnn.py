"""Generative: a PixelCNN with masked convolutions as a subclass, then pictures drawn pixel by pixel with predict."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(44)


class PixelConvLayer(layers.Layer):
    """A convolution that sees only pixels before its own."""

    def __init__(self, mask_type, **kwargs):
        super().__init__()
        self.mask_type = mask_type
        self.conv = layers.Conv2D(**kwargs)

    def build(self, input_shape):
        self.conv.build(input_shape)
        kernel_shape = ops.shape(self.conv.kernel)
        self.mask = np.zeros(shape=kernel_shape, dtype="float32")
        self.mask[: kernel_shape[0] // 2, ...] = 1.0
        self.mask[kernel_shape[0] // 2, : kernel_shape[1] // 2, ...] = 1.0
        if self.mask_type == "B":
            self.mask[kernel_shape[0] // 2, kernel_shape[1] // 2, ...] = 1.0

    def call(self, inputs):
        self.conv.kernel.assign(self.conv.kernel * self.mask)
        return self.conv(inputs)


class ResidualBlock(layers.Layer):
    def __init__(self, filters, **kwargs):
        super().__init__(**kwargs)
        self.conv1 = layers.Conv2D(filters=filters, kernel_size=1, activation="relu")
        self.pixel_conv = PixelConvLayer("B", filters=filters // 2, kernel_size=3, activation="relu", padding="same")
        self.conv2 = layers.Conv2D(filters=filters, kernel_size=1, activation="relu")

    def call(self, inputs):
        x = self.conv2(self.pixel_conv(self.conv1(inputs)))
        return layers.add([inputs, x])


rng = np.random.default_rng(47)
size = 8
start, width = rng.integers(0, 4, size=(320, 1, 1, 1)), rng.integers(2, 5, size=(320, 1, 1, 1))
column = np.arange(size)[None, None, :, None]
data = np.broadcast_to((column >= start) & (column < start + width), (320, size, size, 1)).astype("float32")

inputs = keras.Input(shape=(size, size, 1), batch_size=None)
x = PixelConvLayer(mask_type="A", filters=12, kernel_size=5, activation="relu", padding="same")(inputs)
x = ResidualBlock(filters=12)(x)
out = layers.Conv2D(filters=1, kernel_size=1, strides=1, activation="sigmoid", padding="valid")(x)
pixel_cnn = keras.Model(inputs, out)
pixel_cnn.compile(optimizer=keras.optimizers.Adam(learning_rate=0.0005), loss="binary_crossentropy")
history = pixel_cnn.fit(x=data, y=data, batch_size=32, epochs=2, validation_split=0.1, verbose=2, shuffle=False)

pixels = np.zeros(shape=(2, size, size, 1))
for row in range(2):
    for col in range(size):
        probabilities = pixel_cnn.predict(pixels, verbose=0)[:, row, col, :]
        pixels[:, row, col, :] = probabilities > 0.5
