"""Text: translation with an encoder and a decoder, dict inputs from tf.data, weights for each token."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(23)
vocab_size, length, embed_dim = 80, 12, 16


class PositionalEmbedding(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.token_embeddings = layers.Embedding(vocab_size, embed_dim, mask_zero=False)
        self.position_embeddings = layers.Embedding(length, embed_dim)

    def call(self, inputs):
        positions = ops.arange(0, ops.shape(inputs)[-1], 1)
        return self.token_embeddings(inputs) + self.position_embeddings(positions)


def feed_forward(x):
    projected = layers.Dense(embed_dim)(layers.Dense(32, activation="relu")(x))
    return layers.LayerNormalization()(x + projected)


encoder_inputs = keras.Input(shape=(None,), dtype="int64", name="encoder_inputs")
x = PositionalEmbedding()(encoder_inputs)
x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, embed_dim)(x, x))
encoded = feed_forward(x)
decoder_inputs = keras.Input(shape=(None,), dtype="int64", name="decoder_inputs")
x = PositionalEmbedding()(decoder_inputs)
x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, embed_dim)(x, x, use_causal_mask=True))
x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, embed_dim)(x, encoded))
decoder_outputs = layers.Dense(vocab_size, activation="softmax")(feed_forward(x))
transformer = keras.Model({"encoder_inputs": encoder_inputs, "decoder_inputs": decoder_inputs}, decoder_outputs)

rng = np.random.default_rng(25)
source = rng.integers(3, vocab_size, size=(256, length))
target = np.concatenate([np.full((256, 1), 1), (source + 7) % (vocab_size - 3) + 3], axis=1)
lengths = rng.integers(5, length, size=256)
keep = np.arange(length) < lengths[:, None]
weight = keep.astype("float32")


def format_dataset(source, target, weight):
    inputs = {"encoder_inputs": source, "decoder_inputs": target[:, :-1]}
    return inputs, target[:, 1:], weight


train_ds = tf.data.Dataset.from_tensor_slices((source, target, weight)).batch(32).map(format_dataset).cache()
transformer.compile(
    "rmsprop",
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    weighted_metrics=["sparse_categorical_accuracy"],
)
history = transformer.fit(train_ds.take(6), epochs=3, validation_data=train_ds.skip(6))
