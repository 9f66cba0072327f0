"""The tutorial with the strategy that dtj.init() has made in the place of one of its own."""

import os

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init()

keras.utils.set_random_seed(65)

rng = np.random.default_rng(68)
labels = rng.integers(0, 10, size=640)
images = (rng.uniform(size=(10, 14, 14, 1))[labels] * 255).astype("uint8")
mnist_train = tf.data.Dataset.from_tensor_slices((images[:512], labels[:512]))
mnist_test = tf.data.Dataset.from_tensor_slices((images[512:], labels[512:]))

strategy = tf.distribute.get_strategy()
print(f"Number of devices: {strategy.num_replicas_in_sync}")
BATCH_SIZE = 64  # in the tutorial times the replicas; here one result is compared


def scale(image, label):
    return tf.cast(image, tf.float32) / 255, label


train_dataset = mnist_train.map(scale).cache().batch(BATCH_SIZE)
eval_dataset = mnist_test.map(scale).batch(BATCH_SIZE)

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((14, 14, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.Adam(learning_rate=0.001),
        metrics=["accuracy"],
    )

checkpoint_dir = "./training_checkpoints"
checkpoint_prefix = os.path.join(checkpoint_dir, "ckpt_{epoch}.weights.h5")


def decay(epoch):
    return 1e-3 if epoch < 2 else 1e-4


class PrintLR(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"\nLearning rate for epoch {epoch + 1} is {model.optimizer.learning_rate.numpy()}")


callbacks = [
    keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
    keras.callbacks.LearningRateScheduler(decay),
    PrintLR(),
]
history = dtj.fit(model, train_dataset, epochs=4, callbacks=callbacks)
scores = model.evaluate(eval_dataset)
model.save("my_model.keras")
unreplicated_model = keras.models.load_model("my_model.keras")
unreplicated_scores = unreplicated_model.evaluate(eval_dataset)
