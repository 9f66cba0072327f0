"""Recommenders: retrieval by two towers; `compute_loss` scores each query against all items of the batch."""

import keras
import numpy as np
from keras import layers, ops

BAND = 0.22
REASON = "each replica has half of the items that a query is compared with, and ln 16 is 20 % less than ln 32"
CONTROL = (
    ("ops.transpose(item_vectors)", "ops.transpose(self.item_model(ops.arange(num_items)))"),
    ("ops.eye(ops.shape(scores)[0])", 'ops.one_hot(x["item"], num_items)'),
)

keras.utils.set_random_seed(50)
num_users, num_items = 50, 70

rng = np.random.default_rng(53)
users = rng.integers(0, num_users, size=640)
items = (users * 7 + rng.integers(0, 5, size=640)) % num_items


class TwoTowers(keras.Model):
    def __init__(self):
        super().__init__()
        self.user_model = keras.Sequential([layers.Embedding(num_users, 8), layers.Dense(8)])
        self.item_model = keras.Sequential([layers.Embedding(num_items, 8), layers.Dense(8)])
        self.loss_fn = keras.losses.CategoricalCrossentropy(from_logits=True)

    def call(self, inputs):
        return self.user_model(inputs["user"]), self.item_model(inputs["item"])

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        user_vectors, item_vectors = y_pred
        scores = ops.matmul(user_vectors, ops.transpose(item_vectors))
        return self.loss_fn(ops.eye(ops.shape(scores)[0]), scores)


model = TwoTowers()
model.compile(optimizer=keras.optimizers.Adagrad(learning_rate=0.1))
history = model.fit({"user": users, "item": items}, batch_size=32, epochs=3, shuffle=False)
