"""Text: a transformer block and token and position embeddings as custom layers; sparse targets, arrays."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(5)


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)

    def call(self, inputs):
        out1 = self.layernorm1(inputs + self.att(inputs, inputs))
        return self.layernorm2(out1 + self.ffn(out1))


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(input_dim=vocab_size, output_dim=embed_dim)
        self.pos_emb = layers.Embedding(input_dim=maxlen, output_dim=embed_dim)

    def call(self, x):
        positions = ops.arange(start=0, stop=ops.shape(x)[-1], step=1)
        return self.token_emb(x) + self.pos_emb(positions)


vocab_size, maxlen, embed_dim = 300, 24, 16
rng = np.random.default_rng(5)
x = rng.integers(1, vocab_size, size=(450, maxlen))
y = (x[:, :12] < 60).sum(axis=1) > (x[:, 12:] < 60).sum(axis=1)
x = keras.utils.pad_sequences([row[: rng.integers(12, maxlen)] for row in x], maxlen=maxlen)

inputs = layers.Input(shape=(maxlen,))
hidden = TokenAndPositionEmbedding(maxlen, vocab_size, embed_dim)(inputs)
hidden = TransformerBlock(embed_dim, num_heads=2, ff_dim=32)(hidden)
hidden = layers.GlobalAveragePooling1D()(hidden)
hidden = layers.Dense(20, activation="relu")(hidden)
outputs = layers.Dense(2, activation="softmax")(hidden)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    x[:400], y[:400].astype("int32"), batch_size=32, epochs=2, validation_data=(x[400:], y[400:].astype("int32")),
    shuffle=False,
)  # fmt: skip
