"""Guides: "Writing your own callbacks"; every hook, a stop at the least loss, a schedule, a CSV log."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(61)

rng = np.random.default_rng(64)
x = rng.normal(size=(320, 20)).astype("float32")
y = (x @ rng.normal(size=(20, 1)) / 4).astype("float32")


class CustomCallback(keras.callbacks.Callback):
    """Counts the hooks and keeps the loss of each batch."""

    def __init__(self):
        super().__init__()
        self.counts = {}
        self.losses = []

    def count(self, hook):
        self.counts[hook] = self.counts.get(hook, 0) + 1

    def on_train_begin(self, logs=None):
        self.count("train_begin")

    def on_train_end(self, logs=None):
        self.count("train_end")

    def on_epoch_begin(self, epoch, logs=None):
        self.count("epoch_begin")

    def on_epoch_end(self, epoch, logs=None):
        self.count("epoch_end")
        assert set(logs) >= {"loss", "mean_absolute_error", "val_loss"}

    def on_train_batch_end(self, batch, logs=None):
        self.count("batch")
        self.losses.append(float(logs["loss"]))

    def on_test_batch_end(self, batch, logs=None):
        self.count("test_batch")


class EarlyStoppingAtMinLoss(keras.callbacks.Callback):
    def __init__(self, patience=0):
        super().__init__()
        self.patience = patience
        self.best_weights = None

    def on_train_begin(self, logs=None):
        self.wait, self.stopped_epoch, self.best = 0, 0, np.inf

    def on_epoch_end(self, epoch, logs=None):
        current = logs.get("val_loss")
        if np.less(current, self.best):
            self.best, self.wait = current, 0
            self.best_weights = self.model.get_weights()
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = epoch
                self.model.stop_training = True
                self.model.set_weights(self.best_weights)


class CustomLearningRateScheduler(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        lr = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self.model.optimizer.learning_rate = lr * 0.7 if epoch > 1 else lr


model = keras.Sequential([keras.Input((20,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="mean_squared_error", metrics=["mean_absolute_error"])
hooks = CustomCallback()
history = model.fit(
    x,
    y,
    batch_size=32,
    epochs=5,
    verbose=0,
    validation_split=0.25,
    shuffle=False,
    callbacks=[
        hooks,
        EarlyStoppingAtMinLoss(),
        CustomLearningRateScheduler(),
        keras.callbacks.CSVLogger("log.csv"),
        keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print(f"epoch {epoch}: {logs['loss']:.4f}")),
    ],
)
scores = hooks.losses[-8:]
print(hooks.counts)
