"""Structured: pandas DataFrames and Series given to fit as they are, with weights for rows in a Series."""

import keras
import numpy as np
import pandas as pd
from keras import layers

NEEDS = ("pandas",)

keras.utils.set_random_seed(30)

rng = np.random.default_rng(32)
frame = pd.DataFrame(rng.normal(size=(400, 4)), columns=["rooms", "age", "tax", "distance"]).astype("float32")
frame["price"] = 3 * frame["rooms"] - frame["age"] + 0.5 * rng.normal(size=400)
frame["sure"] = rng.uniform(0.2, 1.0, size=400)
train, test = frame.iloc[:330], frame.iloc[330:]
columns = ["rooms", "age", "tax", "distance"]

model = keras.Sequential([layers.Input((4,)), layers.Dense(16, activation="tanh"), layers.Dense(1)])
model.compile(optimizer="rmsprop", loss="mse", metrics=["mae"], weighted_metrics=["mse"])
history = model.fit(
    train[columns],
    train["price"],
    sample_weight=train["sure"],
    validation_data=(test[columns], test["price"], test["sure"]),
    batch_size=50,
    epochs=4,
    shuffle=False,
)
scores = model.evaluate(test[columns], test["price"], sample_weight=test["sure"], return_dict=True)
predictions = model.predict(test[columns])
