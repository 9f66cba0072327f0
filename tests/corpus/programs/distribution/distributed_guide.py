"""Distribution: Keras' "Multi-GPU distributed training"; functions for model and data, restores its own checkpoints."""

import os

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(67)
checkpoint_dir = "./ckpt"


def get_compiled_model():
    inputs = keras.Input(shape=(100,))
    x = keras.layers.Dense(32, activation="relu")(inputs)
    x = keras.layers.Dense(32, activation="relu")(x)
    model = keras.Model(inputs, keras.layers.Dense(10)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[keras.metrics.SparseCategoricalAccuracy()],
    )
    return model


def get_dataset():
    rng = np.random.default_rng(70)
    y = rng.integers(0, 10, size=500)
    x = (rng.normal(size=(10, 100))[y] + rng.normal(size=(500, 100))).astype("float32")
    parts = [(x[first:last], y[first:last]) for first, last in ((0, 350), (350, 420), (420, 500))]
    return [tf.data.Dataset.from_tensor_slices(part).batch(32) for part in parts]


def make_or_restore_model():
    os.makedirs(checkpoint_dir, exist_ok=True)
    checkpoints = [os.path.join(checkpoint_dir, name) for name in os.listdir(checkpoint_dir)]
    if checkpoints:
        latest_checkpoint = max(checkpoints, key=os.path.getctime)
        print("Restoring from", latest_checkpoint)
        return keras.models.load_model(latest_checkpoint)
    print("Creating a new model")
    return get_compiled_model()


model = make_or_restore_model()
train_dataset, val_dataset, test_dataset = get_dataset()
callbacks = [keras.callbacks.ModelCheckpoint(filepath=checkpoint_dir + "/ckpt-{epoch}.keras", save_freq="epoch")]
history = model.fit(train_dataset, epochs=2, callbacks=callbacks, validation_data=val_dataset, verbose=2)
scores = model.evaluate(test_dataset)
