"""Text: a causal transformer with a list of losses of which one is None; a callback writes text after each epoch."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(21)
vocab_size, maxlen, embed_dim = 60, 16, 16


class CausalBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads, embed_dim)
        self.ffn = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(embed_dim)])
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)

    def call(self, inputs):
        out1 = self.layernorm1(inputs + self.att(inputs, inputs, use_causal_mask=True))
        return self.layernorm2(out1 + self.ffn(out1))


class Positions(layers.Layer):
    def __init__(self):
        super().__init__()
        self.token_emb = layers.Embedding(vocab_size, embed_dim)
        self.pos_emb = layers.Embedding(maxlen, embed_dim)

    def call(self, x):
        return self.token_emb(x) + self.pos_emb(ops.arange(0, ops.shape(x)[-1], 1))


class TextGenerator(keras.callbacks.Callback):
    """Continues a text by the most probable tokens."""

    def __init__(self, start_tokens, max_tokens, print_every=1):
        super().__init__()
        self.start_tokens, self.max_tokens, self.print_every = start_tokens, max_tokens, print_every

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.print_every:
            return
        tokens = list(self.start_tokens)
        for _ in range(self.max_tokens):
            x = np.array([(tokens + [0] * maxlen)[:maxlen]])
            y, _ = self.model.predict(x, verbose=0)
            tokens.append(int(np.argmax(y[0, len(tokens) - 1])))
        print("generated tokens:", tokens)


inputs = layers.Input(shape=(maxlen,), dtype="int32")
hidden = CausalBlock(embed_dim, 2)(Positions()(inputs))
outputs = layers.Dense(vocab_size)(hidden)
model = keras.Model(inputs=inputs, outputs=[outputs, hidden])
model.compile("adam", loss=[keras.losses.SparseCategoricalCrossentropy(from_logits=True), None])

rng = np.random.default_rng(22)
text = (np.cumsum(rng.integers(1, 4, size=(256, maxlen + 1)), axis=1) % vocab_size).astype("int32")
text_ds = tf.data.Dataset.from_tensor_slices(text).batch(32)
text_ds = text_ds.map(lambda tokens: (tokens[:, :-1], tokens[:, 1:])).prefetch(tf.data.AUTOTUNE)
history = model.fit(text_ds, verbose=2, epochs=2, callbacks=[TextGenerator([3, 5], 4)])
