"""A custom training loop as TensorFlow's own guides write it. It knows nothing of this project.

    python tutorial.py                     one process: all GPUs, or the CPU
    kubectl apply -f tutorial.yaml         the same file in two pods, supervised by dtj-run

The strategy follows from the GPUs and from TF_CONFIG. After a failure the script starts over in every pod and goes on
from the checkpoint of its last whole epoch.
"""

import argparse
import os
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

GLOBAL_BATCH = 120


def choose_strategy() -> tf.distribute.Strategy:
    if "TF_CONFIG" in os.environ:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if len(tf.config.list_physical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("--epochs", type=int, default=8)
arguments.add_argument("--steps-per-epoch", type=int, default=50)
arguments.add_argument("--checkpoints", default="", help="a directory that all workers see; none: no checkpoints")
options = arguments.parse_args()

strategy = choose_strategy()
task = strategy.cluster_resolver.task_id if strategy.cluster_resolver else 0
print(f"{type(strategy).__name__} with {strategy.num_replicas_in_sync} replicas")

digits = np.load(Path(__file__).with_name("digits.npz"))
dataset = (
    tf.data.Dataset.from_tensor_slices((digits["x_train"][..., None] / np.float32(16), digits["y_train"]))
    .shuffle(2000, seed=1)
    .repeat()
    .batch(GLOBAL_BATCH, drop_remainder=True)
)
batches = iter(strategy.experimental_distribute_dataset(dataset))

with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.Adam(2e-3)
    optimizer.build(model.trainable_variables)
    epoch = tf.Variable(0, trainable=False)

checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
# Every worker has to take part in a save; what all but the first one write is thrown away.
where = options.checkpoints if task == 0 or not options.checkpoints else tempfile.mkdtemp()
manager = tf.train.CheckpointManager(checkpoint, where, max_to_keep=2) if where else None
newest = tf.train.latest_checkpoint(options.checkpoints) if options.checkpoints else None
if newest:
    checkpoint.restore(newest)
    print(f"goes on after epoch {int(epoch.numpy())}")


def train_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), model(images, training=True))
        loss = tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


@tf.function
def distributed_train_step(iterator: tf.distribute.DistributedIterator) -> tf.Tensor:
    per_replica = strategy.run(train_step, args=next(iterator))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica, axis=None)


while epoch.numpy() < options.epochs:
    total = 0.0
    for _ in range(options.steps_per_epoch):
        total += float(distributed_train_step(batches))
    epoch.assign_add(1)
    if manager:
        manager.save()
    print(f"epoch {int(epoch.numpy())}: loss {total / options.steps_per_epoch:.4f}")

guessed = model(digits["x_test"][..., None] / np.float32(16)).numpy().argmax(-1)
print(f"test accuracy {(guessed == digits['y_test']).mean():.3f} after {int(optimizer.iterations.numpy())} steps")
