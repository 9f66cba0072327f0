"""Makes variables with random first values, each process its own; says what they are when training begins."""

import os

import keras
import tensorflow as tf

import dtj

session = dtj.init()
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
uneven = tf.Variable(tf.fill([2, 2], session.rank + 1))
whole = tf.Variable(tf.fill([3], tf.cast(session.rank + 7, tf.int64)))
mean = tf.Variable(
    float(session.rank + 1),
    trainable=False,
    synchronization=tf.VariableSynchronization.ON_READ,
    aggregation=tf.VariableAggregation.MEAN,
)


@tf.function
def look():
    return tf.reduce_sum(model.trainable_variables[0].value), uneven[0, 0], whole[0], mean


numbers = [float(number) for number in session.strategy.run(look)]
later = tf.Variable(session.rank + 30)
print("SAY", "values", *(f"{number:.6f}" for number in numbers), later.numpy(), flush=True)  # noqa: T201
session.coordination.barrier()
os._exit(0)
