"""Vision: class and box of an object; two outputs in lists, list losses and weights, a custom metric."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(12)


class MeanOverlap(keras.metrics.Metric):
    """The mean intersection over union of boxes (x, y, width, height)."""

    def __init__(self, name="overlap", **kwargs):
        super().__init__(name=name, **kwargs)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = ops.cast(y_true, "float32"), ops.cast(y_pred, "float32")
        start = ops.maximum(y_true[:, :2], y_pred[:, :2])
        stop = ops.minimum(y_true[:, :2] + y_true[:, 2:], y_pred[:, :2] + y_pred[:, 2:])
        common = ops.prod(ops.maximum(stop - start, 0), axis=1)
        union = ops.prod(y_true[:, 2:], axis=1) + ops.prod(ops.maximum(y_pred[:, 2:], 0), axis=1) - common
        self.total.assign_add(ops.sum(common / union))
        self.count.assign_add(ops.cast(ops.shape(y_true)[0], "float32"))

    def result(self):
        return self.total / (self.count + 1e-7)


rng = np.random.default_rng(12)
images = rng.normal(0, 0.2, size=(360, 16, 16, 1)).astype("float32")
classes = rng.integers(0, 2, size=360)
corner = rng.integers(0, 8, size=(360, 2))
size = rng.integers(4, 8, size=(360, 2))
for image, kind, (x, y), (width, height) in zip(images, classes, corner, size, strict=True):
    image[y : y + height, x : x + width] += 1.0 if kind else -1.0
boxes = np.concatenate([corner, size], axis=1).astype("float32") / 16

inputs = keras.Input((16, 16, 1))
x = layers.Conv2D(8, 3, activation="relu")(inputs)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(32, activation="relu")(x)
model = keras.Model(inputs, [layers.Dense(2, name="kind")(x), layers.Dense(4, name="box")(x)])
model.compile(
    optimizer=keras.optimizers.Adam(2e-3),
    loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.losses.Huber()],
    loss_weights=[0.3, 1.0],
    metrics=[["accuracy"], [MeanOverlap()]],
)
history = model.fit(
    images[:300], [classes[:300], boxes[:300]], batch_size=32, epochs=4, shuffle=False,
    validation_data=(images[300:], [classes[300:], boxes[300:]]),
)  # fmt: skip
