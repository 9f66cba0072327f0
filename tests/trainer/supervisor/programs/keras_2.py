# ruff: noqa: T201 - the test reads what is printed
"""A plain script of Keras 2: builds its own strategy from TF_CONFIG and knows nothing of dtj. Argument: epochs."""

import os
import sys
import time

import numpy as np
import tensorflow as tf
import tf_keras

print("SAY begin", os.getpid(), flush=True)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse")


class Told(tf_keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 0:
            print("SAY first", flush=True)
        time.sleep(0.1)


model.fit(data.with_options(options), epochs=int(sys.argv[1]), callbacks=[Told()], verbose=0)
print("SAY weights", *(float(value) for weights in model.get_weights() for value in weights.ravel()), flush=True)
