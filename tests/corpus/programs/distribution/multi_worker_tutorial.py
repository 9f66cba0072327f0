"""Distribution: TensorFlow's "Multi-worker training with Keras"; reads TF_CONFIG, switches sharding off."""

import json
import os

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(66)
per_worker_batch_size = 64
tf_config = json.loads(os.environ.get("TF_CONFIG", '{"cluster": {"worker": ["localhost:12345"]}}'))
num_workers = len(tf_config["cluster"]["worker"])
global_batch_size = 64  # in the tutorial per_worker_batch_size * num_workers; here one result is compared


def mnist_dataset(batch_size):
    rng = np.random.default_rng(69)
    y_train = rng.integers(0, 10, size=480).astype(np.int64)
    x_train = (rng.uniform(size=(10, 14, 14))[y_train] + rng.normal(0, 0.2, size=(480, 14, 14))).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).repeat().batch(batch_size)


def build_and_compile_cnn_model():
    model = keras.Sequential(
        [
            keras.layers.InputLayer(shape=(14, 14)),
            keras.layers.Reshape(target_shape=(14, 14, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.01),
        metrics=["accuracy"],
    )
    return model


options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
multi_worker_dataset = mnist_dataset(global_batch_size).with_options(options)
multi_worker_model = build_and_compile_cnn_model()
history = multi_worker_model.fit(multi_worker_dataset, epochs=3, steps_per_epoch=7)
