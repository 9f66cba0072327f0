"""Structured: fraud in few rows; class weights, ModelCheckpoint, and the counts of right and wrong as metrics."""

import keras
import numpy as np

keras.utils.set_random_seed(28)

rng = np.random.default_rng(30)
targets = (rng.random(size=(1200, 1)) < 0.06).astype("uint8")
features = (rng.normal(size=(1200, 12)) + 1.2 * targets * (np.arange(12) % 3 == 0)).astype("float32")
train_features, train_targets = features[:1000], targets[:1000]
val_features, val_targets = features[1000:], targets[1000:]
mean, std = train_features.mean(axis=0), train_features.std(axis=0)
train_features, val_features = (train_features - mean) / std, (val_features - mean) / std
counts = np.bincount(train_targets[:, 0])
weight_for_0, weight_for_1 = 1.0 / counts[0], 1.0 / counts[1]

model = keras.Sequential(
    [
        keras.Input(shape=train_features.shape[1:]),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
metrics = [
    keras.metrics.FalseNegatives(name="fn"),
    keras.metrics.FalsePositives(name="fp"),
    keras.metrics.TrueNegatives(name="tn"),
    keras.metrics.TruePositives(name="tp"),
    keras.metrics.Precision(name="precision"),
    keras.metrics.Recall(name="recall"),
    keras.metrics.AUC(name="auc"),
]
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=metrics)
history = model.fit(
    train_features,
    train_targets,
    batch_size=100,
    epochs=4,
    verbose=2,
    callbacks=[keras.callbacks.ModelCheckpoint("fraud_model_at_epoch_{epoch}.keras")],
    validation_data=(val_features, val_targets),
    class_weight={0: weight_for_0, 1: weight_for_1},
    shuffle=False,
)
