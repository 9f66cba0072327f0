"""Guides: targets are an input of the model; an endpoint layer adds the loss, another layer regularizes by activity."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(57)


@keras.saving.register_keras_serializable()
class LogisticEndpoint(layers.Layer):
    def __init__(self, name=None):
        super().__init__(name=name)
        self.loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    def call(self, targets, logits, sample_weights=None):
        self.add_loss(self.loss_fn(targets, logits, sample_weights))
        return ops.sigmoid(logits)


class ActivityRegularizationLayer(layers.Layer):
    def call(self, inputs):
        self.add_loss(ops.mean(ops.square(inputs)) * 0.1)
        return inputs


rng = np.random.default_rng(60)
x = rng.normal(size=(300, 6)).astype("float32")
y = (x[:, :1] * x[:, 1:2] > 0).astype("float32")

inputs = keras.Input(shape=(6,), name="inputs")
targets = keras.Input(shape=(1,), name="targets")
hidden = ActivityRegularizationLayer()(layers.Dense(16, activation="tanh")(inputs))
logits = layers.Dense(1)(hidden)
preds = LogisticEndpoint(name="predictions")(targets, logits)
model = keras.Model(inputs=[inputs, targets], outputs=preds)
model.compile(optimizer=keras.optimizers.Adamax(0.01))
history = model.fit({"inputs": x, "targets": y}, epochs=4, batch_size=50, shuffle=False)
