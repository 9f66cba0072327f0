"""Text: word vectors loaded into an Embedding that does not train; several filters, average pooling, sparse labels."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(25)
num_tokens, embedding_dim = 500, 16

rng = np.random.default_rng(27)
embedding_matrix = rng.normal(size=(num_tokens, embedding_dim)).astype("float32")
embedding_matrix[0] = 0
x = rng.integers(1, num_tokens, size=(420, 25))
y = embedding_matrix[x].mean(axis=1)[:, :4].argmax(axis=1)

embedding_layer = layers.Embedding(num_tokens, embedding_dim, trainable=False)
embedding_layer.build((1,))
embedding_layer.set_weights([embedding_matrix])

int_sequences_input = keras.Input(shape=(None,), dtype="int32")
embedded_sequences = embedding_layer(int_sequences_input)
h = layers.Conv1D(16, 3, activation="relu")(embedded_sequences)
h = layers.Conv1D(16, 3, activation="relu")(h)
h = layers.GlobalAveragePooling1D()(h)
preds = layers.Dense(4, activation="softmax")(h)
model = keras.Model(int_sequences_input, preds)
model.compile(loss="sparse_categorical_crossentropy", optimizer="rmsprop", metrics=["acc"])
history = model.fit(x[:360], y[:360], batch_size=36, epochs=4, validation_data=(x[360:], y[360:]), shuffle=False)
np.testing.assert_array_equal(embedding_layer.get_weights()[0], embedding_matrix)
