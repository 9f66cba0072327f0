"""Vision: the simple convolutional network of every first tutorial; one-hot labels, `validation_split`, evaluate."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(8)
num_classes = 10
input_shape = (14, 14, 1)

rng = np.random.default_rng(8)
templates = rng.uniform(size=(num_classes, 14, 14, 1)) > 0.6
labels = rng.integers(0, num_classes, size=700)
images = (255 * np.clip(templates[labels] + rng.normal(0, 0.4, size=(700, 14, 14, 1)), 0, 1)).astype("uint8")
x_train, x_test = images[:600].astype("float32") / 255, images[600:].astype("float32") / 255
y_train = keras.utils.to_categorical(labels[:600], num_classes)
y_test = keras.utils.to_categorical(labels[600:], num_classes)

model = keras.Sequential(
    [
        keras.Input(shape=input_shape),
        layers.Conv2D(8, kernel_size=(3, 3), activation="relu"),
        layers.MaxPooling2D(pool_size=(2, 2)),
        layers.Conv2D(16, kernel_size=(3, 3), activation="relu"),
        layers.Flatten(),
        layers.Dense(num_classes, activation="softmax"),
    ]
)
model.summary()
model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(x_train, y_train, batch_size=64, epochs=4, validation_split=0.1, shuffle=False)
scores = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", scores[0])
print("Test accuracy:", scores[1])
