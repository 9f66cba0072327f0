"""Recommenders: a subclassed model with embeddings of users and films and their biases, regularized."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(49)
num_users, num_movies, EMBEDDING_SIZE = 60, 80, 8

rng = np.random.default_rng(52)
taste, kind = rng.normal(size=(num_users, 3)), rng.normal(size=(num_movies, 3))
x = np.stack([rng.integers(0, num_users, size=900), rng.integers(0, num_movies, size=900)], axis=1)
rating = (taste[x[:, 0]] * kind[x[:, 1]]).sum(axis=1)
y = (rating - rating.min()) / (rating.max() - rating.min())
x_train, x_val, y_train, y_val = x[:810], x[810:], y[:810], y[810:]


class RecommenderNet(keras.Model):
    def __init__(self, num_users, num_movies, embedding_size, **kwargs):
        super().__init__(**kwargs)
        settings = {"embeddings_initializer": "he_normal", "embeddings_regularizer": keras.regularizers.l2(1e-6)}
        self.user_embedding = layers.Embedding(num_users, embedding_size, **settings)
        self.user_bias = layers.Embedding(num_users, 1)
        self.movie_embedding = layers.Embedding(num_movies, embedding_size, **settings)
        self.movie_bias = layers.Embedding(num_movies, 1)

    def call(self, inputs):
        user_vector, user_bias = self.user_embedding(inputs[:, 0]), self.user_bias(inputs[:, 0])
        movie_vector, movie_bias = self.movie_embedding(inputs[:, 1]), self.movie_bias(inputs[:, 1])
        dot_user_movie = ops.sum(user_vector * movie_vector, axis=1, keepdims=True)
        return ops.nn.sigmoid(dot_user_movie + user_bias + movie_bias)


model = RecommenderNet(num_users, num_movies, EMBEDDING_SIZE)
model.compile(loss=keras.losses.BinaryCrossentropy(), optimizer=keras.optimizers.Adam(learning_rate=0.005))
history = model.fit(
    x=x_train, y=y_train, batch_size=64, epochs=4, verbose=1, validation_data=(x_val, y_val), shuffle=False
)
predictions = model.predict(x_val).flatten()
print("best films:", x_val[predictions.argsort()[-3:][::-1], 1])
