"""Vision: the mixed precision guide: a global policy of float16, loss scaling, a float32 softmax, a large batch."""

import keras
import numpy as np
from keras import layers, mixed_precision

BAND = 0.005
REASON = "float16 rounds to 1/2,000"
CONTROL = (('"mixed_float16"', '"float32"'),)

keras.utils.set_random_seed(16)
mixed_precision.set_global_policy("mixed_float16")

rng = np.random.default_rng(17)
labels = rng.integers(0, 10, size=640)
images = (rng.normal(size=(10, 100))[labels] + rng.normal(0, 1.5, size=(640, 100))).astype("float32")

inputs = keras.Input(shape=(100,), name="digits")
x = layers.Dense(128, activation="relu", name="dense_1")(inputs)
x = layers.Dense(128, activation="relu", name="dense_2")(x)
x = layers.Dense(10, name="dense_logits")(x)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.RMSprop(), metrics=["accuracy"])
history = model.fit(images, labels, batch_size=128, epochs=4, validation_split=0.2, shuffle=False)
scores = model.evaluate(images[:100], labels[:100], verbose=2)
