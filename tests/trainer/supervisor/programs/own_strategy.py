"""A script that does not ask for us as it should; the first argument says how."""

import sys

import tensorflow as tf

CASE = sys.argv[1]
if CASE == "estimator":
    tf.estimator.DNNClassifier(feature_columns=[], hidden_units=[4])

import keras  # noqa: E402
import numpy as np  # noqa: E402

import dtj  # noqa: E402

x = np.ones((48, 8), "float32")


def compiled() -> keras.Model:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


if CASE == "tutorial":
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = compiled()
    model.fit(x, x[:, :1], verbose=0)
if CASE == "alone":
    compiled().fit(x, x[:, :1], epochs=100_000, verbose=0)
dtj.init()
if CASE == "scope":
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        dtj.fit(compiled(), x, x[:, :1])
model = compiled()
if CASE == "train_on_batch":
    model.train_on_batch(x, x[:, :1])
model.fit(x, x[:, :1], verbose=0)
