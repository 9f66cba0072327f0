"""Vision: image similarity; `train_step` compares anchors with positives, read from an endless generator."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

BAND = 0.5
REASON = "each replica has 4 of the 8 images that an anchor is compared with, and ln 4 is 33 % less than ln 8"
CONTROL = (
    (
        "sparse_labels = keras.ops.arange(keras.ops.shape(anchors)[0])",
        "sparse_labels = 0 * keras.ops.arange(keras.ops.shape(anchors)[0])",
    ),
    (
        'keras.ops.einsum("ae,pe->ap", anchor_embeddings, positive_embeddings) / 0.2',
        "keras.ops.stack([keras.ops.sum(anchor_embeddings * positive_embeddings, -1), anchor_embeddings[:, 0]], 1)",
    ),
)

keras.utils.set_random_seed(15)
num_classes = 8

rng = np.random.default_rng(15)
centres = rng.normal(size=(num_classes, 8, 8, 1))


def batches():
    draw = np.random.default_rng(16)
    while True:
        noise = draw.normal(0, 0.7, size=(2, num_classes, 8, 8, 1))
        yield (tf.constant((centres + noise).astype("float32").transpose(1, 0, 2, 3, 4)),)


class EmbeddingModel(keras.Model):
    def train_step(self, data):
        pairs = data[0] if isinstance(data, tuple) else data
        anchors, positives = pairs[:, 0], pairs[:, 1]
        with tf.GradientTape() as tape:
            anchor_embeddings = self(anchors, training=True)
            positive_embeddings = self(positives, training=True)
            similarities = keras.ops.einsum("ae,pe->ap", anchor_embeddings, positive_embeddings) / 0.2
            sparse_labels = keras.ops.arange(keras.ops.shape(anchors)[0])
            loss = self.compute_loss(y=sparse_labels, y_pred=similarities)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(sparse_labels, similarities)
        return {m.name: m.result() for m in self.metrics}


inputs = layers.Input(shape=(8, 8, 1))
x = layers.Conv2D(filters=16, kernel_size=3, strides=2, activation="relu")(inputs)
x = layers.GlobalAveragePooling2D()(x)
embeddings = layers.UnitNormalization()(layers.Dense(units=8, activation=None)(x))
model = EmbeddingModel(inputs, embeddings)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[keras.metrics.SparseCategoricalAccuracy()],
)
history = model.fit(batches(), epochs=3, steps_per_epoch=20)
