# ruff: noqa: T201 - the test reads what is printed
"""A plain multi-worker script: builds its own strategy from TF_CONFIG and knows nothing of dtj."""

import os
import sys
import time

import tensorflow as tf

print("SAY begin", os.getpid(), flush=True)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
data = tf.data.Dataset.range(64).map(lambda i: tf.cast(i, tf.float32)).repeat().batch(8)
batches = iter(strategy.experimental_distribute_dataset(data))
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step(batch):
    def replica(numbers):
        mean = tf.distribute.get_replica_context().all_reduce("mean", tf.reduce_mean(numbers))
        weight.assign_sub(0.1 * (weight - mean))
        return weight.read_value()

    return strategy.reduce("mean", strategy.run(replica, args=(batch,)), axis=None)


for number in range(int(sys.argv[1])):
    step(next(batches))
    if number == 0:
        print("SAY first", flush=True)
    time.sleep(0.01)
print("SAY end", flush=True)
