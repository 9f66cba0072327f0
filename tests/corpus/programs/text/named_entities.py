"""Text: named entities; batches padded to their longest sentence, a loss that leaves padding out."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

BAND = 0.01
REASON = "each replica divides by its own number of tokens, and sentences differ in length"
CONTROL = (("size=draw.integers(4, 14)", "size=9"),)

keras.utils.set_random_seed(22)
vocab_size, num_tags = 100, 5


class CustomNonPaddingTokenLoss(keras.losses.Loss):
    def __init__(self, name="custom_ner_loss"):
        super().__init__(name=name, reduction=None)

    def call(self, y_true, y_pred):
        loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=False, reduction=None)
        loss = loss_fn(y_true, y_pred)
        mask = ops.cast(y_true > 0, dtype="float32")
        return ops.sum(loss * mask) / ops.sum(mask)


rng = np.random.default_rng(23)


def sentences():
    draw = np.random.default_rng(24)
    for _ in range(300):
        tokens = draw.integers(1, vocab_size, size=draw.integers(4, 14))
        yield tokens, 1 + tokens % (num_tags - 1)


signature = (tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None,), tf.int64))
dataset = tf.data.Dataset.from_generator(sentences, output_signature=signature)
train_dataset = dataset.apply(tf.data.experimental.assert_cardinality(300)).padded_batch(24)

inputs = keras.Input((None,), dtype="int64")
x = layers.Embedding(vocab_size, 16)(inputs)
x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
x = layers.Dense(16, activation="relu")(x)
ner_model = keras.Model(inputs, layers.Dense(num_tags, activation="softmax")(x))
ner_model.compile(optimizer="adam", loss=CustomNonPaddingTokenLoss())
history = ner_model.fit(train_dataset, epochs=3)
