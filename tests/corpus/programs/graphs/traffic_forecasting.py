"""Graphs: traffic on roads, a graph convolution before an LSTM; `steps_per_epoch` below one pass of tf.data."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(54)
roads, window = 8, 10

rng = np.random.default_rng(57)
distance = abs(np.arange(roads)[:, None] - np.arange(roads)[None])
adjacency = (np.exp(-(distance**2) / 2) * (distance < 3)).astype("float32")
adjacency /= adjacency.sum(axis=1, keepdims=True)
time = np.arange(500)[:, None]
speed = (np.sin(time / 12 + np.arange(roads) / 2) + 0.1 * rng.normal(size=(500, roads))).astype("float32")


class GraphConv(layers.Layer):
    """Averages each road's neighbours, then projects."""

    def __init__(self, out_feat, adjacency, **kwargs):
        super().__init__(**kwargs)
        self.adjacency = adjacency
        self.weight = self.add_weight(shape=(1, out_feat), initializer="glorot_uniform", name="weight")
        self.own = self.add_weight(shape=(1, out_feat), initializer="glorot_uniform", name="own")

    def call(self, features):
        aggregated = ops.einsum("rs,bts->btr", self.adjacency, features)
        return ops.relu(aggregated[..., None] * self.weight[0] + features[..., None] * self.own[0])


inputs = layers.Input((window, roads))
x = GraphConv(4, adjacency)(inputs)
x = layers.Reshape((window, roads * 4))(x)
x = layers.LSTM(24, activation="relu")(x)
model = keras.Model(inputs, layers.Dense(roads)(x))
model.compile(optimizer=keras.optimizers.RMSprop(learning_rate=0.002), loss=keras.losses.MeanSquaredError())

windows = keras.utils.timeseries_dataset_from_array(speed[:-window], speed[window:], window, batch_size=32)
train_dataset = windows.take(12).cache().repeat()
history = model.fit(
    train_dataset,
    steps_per_epoch=9,
    validation_data=windows.skip(12),
    epochs=4,
    callbacks=[keras.callbacks.EarlyStopping(patience=10)],
)
for x_test, _ in windows.skip(14).take(1):
    predictions = model.predict(x_test, verbose=0)
