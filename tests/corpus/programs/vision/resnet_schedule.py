"""Vision: a residual network with batch normalization, momentum, L2, and a LearningRateScheduler."""

import keras
import numpy as np
from keras import layers, regularizers

BAND = 0.05
REASON = "batch normalization"
CONTROL = (("layers.BatchNormalization()", "layers.LayerNormalization()"),)

keras.utils.set_random_seed(10)

rng = np.random.default_rng(10)
labels = rng.integers(0, 4, size=(384, 1))
images = rng.normal(0, 0.5, size=(384, 16, 16, 3)).astype("float32")
images[np.arange(384), 2 * labels[:, 0], :, :] += 1.5


def lr_schedule(epoch):
    return 0.05 if epoch < 2 else 0.005


def resnet_layer(inputs, num_filters=8, strides=1, activation="relu"):
    conv = layers.Conv2D(
        num_filters,
        3,
        strides=strides,
        padding="same",
        kernel_initializer="he_normal",
        kernel_regularizer=regularizers.L2(1e-4),
    )
    x = layers.BatchNormalization()(conv(inputs))
    return layers.Activation(activation)(x) if activation else x


inputs = keras.Input((16, 16, 3))
x = resnet_layer(inputs)
for stack, strides in enumerate((1, 2)):
    y = resnet_layer(x, num_filters=8 * (stack + 1), strides=strides)
    y = resnet_layer(y, num_filters=8 * (stack + 1), activation=None)
    if stack > 0:
        x = layers.Conv2D(8 * (stack + 1), 1, strides=strides, padding="same")(x)
    x = layers.Activation("relu")(layers.add([x, y]))
x = layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, layers.Dense(4, activation="softmax")(x))
model.compile(
    loss="sparse_categorical_crossentropy",
    optimizer=keras.optimizers.SGD(learning_rate=lr_schedule(0), momentum=0.9),
    metrics=["accuracy"],
)
history = model.fit(
    images,
    labels,
    batch_size=32,
    epochs=3,
    shuffle=False,
    callbacks=[keras.callbacks.LearningRateScheduler(lr_schedule, verbose=1)],
)
