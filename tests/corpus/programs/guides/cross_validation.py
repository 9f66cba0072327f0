"""Guides: k-fold cross-validation; each fold has its own model, fit and evaluation."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(59)
folds = 3

rng = np.random.default_rng(62)
train_data = rng.normal(size=(300, 6)).astype("float32")
train_targets = train_data[:, :1] - 2 * train_data[:, 1:2] + 0.1 * rng.normal(size=(300, 1))


def build_model():
    model = keras.Sequential([layers.Input((6,)), layers.Dense(16, activation="relu"), layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="mse", metrics=["mae"])
    return model


models, histories, scores = [], [], []
size = len(train_data) // folds
for i in range(folds):
    print(f"Processing fold #{i}")
    held_out = np.arange(i * size, (i + 1) * size)
    partial_data, partial_targets = np.delete(train_data, held_out, axis=0), np.delete(train_targets, held_out, axis=0)
    model = build_model()
    histories.append(
        model.fit(
            partial_data,
            partial_targets,
            validation_data=(train_data[held_out], train_targets[held_out]),
            epochs=3,
            batch_size=25,
            shuffle=False,
            verbose=0,
        )
    )
    scores.append(model.evaluate(train_data[held_out], train_targets[held_out], verbose=0))
    models.append(model)
print("mean absolute error:", np.mean([mae for _, mae in scores]))
