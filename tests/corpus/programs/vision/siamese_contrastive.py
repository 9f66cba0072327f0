"""Vision: a siamese network with a contrastive loss over pairs of images; one tower is used twice."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(4)

rng = np.random.default_rng(4)
classes = rng.normal(size=(5, 10, 10)).astype("float32")
labels = rng.integers(0, 5, size=600)
images = classes[labels] + rng.normal(0, 0.5, size=(600, 10, 10)).astype("float32")


def make_pairs(images, labels):
    partner = rng.permutation(len(labels))
    alike = np.arange(len(labels)) % 2 == 0
    for index in np.flatnonzero(alike):
        partner[index] = rng.choice(np.flatnonzero(labels == labels[index]))
    return images, images[partner], (labels != labels[partner]).astype("float32")


left, right, differ = make_pairs(images, labels)


def euclidean_distance(vectors):
    x, y = vectors
    return ops.sqrt(ops.maximum(ops.sum(ops.square(x - y), axis=1, keepdims=True), keras.config.epsilon()))


def contrastive_loss(margin=1.0):
    def loss(y_true, y_pred):
        square_pred = ops.square(y_pred)
        margin_square = ops.square(ops.maximum(margin - y_pred, 0))
        return ops.mean((1 - y_true) * square_pred + y_true * margin_square)

    return loss


inputs = keras.Input((10, 10))
hidden = layers.Flatten()(inputs)
hidden = layers.Dense(32, activation="tanh")(hidden)
tower = keras.Model(inputs, layers.Dense(8, activation="tanh")(hidden))

first, second = keras.Input((10, 10)), keras.Input((10, 10))
distance = layers.Lambda(euclidean_distance, output_shape=(1,))([tower(first), tower(second)])
siamese = keras.Model([first, second], layers.Dense(1, activation="sigmoid")(distance))
siamese.compile(loss=contrastive_loss(margin=1), optimizer="RMSprop", metrics=["accuracy"])
history = siamese.fit(
    [left[:480], right[:480]],
    differ[:480, None],
    validation_data=([left[480:], right[480:]], differ[480:, None]),
    batch_size=16,
    epochs=3,
    shuffle=False,
)
