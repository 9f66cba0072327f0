"""Structured: what follows fit is half of the program: evaluate, predict, save, load, export, serve."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(7)

rng = np.random.default_rng(7)
x = rng.normal(size=(640, 10)).astype("float32")
y = (np.tanh(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]).astype("float32")

model = keras.Sequential([keras.Input((10,)), layers.Dense(32, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.summary()
history = model.fit(x[:512], y[:512], batch_size=64, epochs=4, shuffle=False)

scores = model.evaluate(x[512:], y[512:], batch_size=50, return_dict=True)
predictions = model.predict(x[512:], batch_size=50)
print("first predictions:", predictions[:3, 0])

model.save("model.keras")
again = keras.models.load_model("model.keras")
np.testing.assert_allclose(again.predict(x[512:], verbose=0), predictions, rtol=1e-4, atol=1e-5)

model.export("exported", format="tf_saved_model", verbose=False)
artifact = tf.saved_model.load("exported")
served = artifact.serve(x[512:520])
np.testing.assert_allclose(served, predictions[:8], rtol=1e-4, atol=1e-5)
