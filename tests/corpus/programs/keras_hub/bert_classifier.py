"""Keras Hub: a small BERT backbone with random weights under a text classifier without a preprocessor; dict inputs."""

import keras
import keras_hub
import numpy as np

NEEDS = ("keras_hub",)

keras.utils.set_random_seed(69)

rng = np.random.default_rng(72)
tokens = rng.integers(1, 100, size=(192, 12)).astype("int32")
labels = (tokens[:, 1:6].mean(axis=1) > 50).astype("int32")
features = {
    "token_ids": tokens,
    "segment_ids": np.zeros_like(tokens),
    "padding_mask": np.ones_like(tokens),
}
backbone = keras_hub.models.BertBackbone(
    vocabulary_size=100,
    num_layers=2,
    num_heads=2,
    hidden_dim=16,
    intermediate_dim=32,
    dropout=0.0,
    max_sequence_length=12,
)
classifier = keras_hub.models.BertTextClassifier(backbone=backbone, num_classes=2, dropout=0.0, preprocessor=None)
classifier.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    optimizer=keras.optimizers.SGD(0.1),
    metrics=["accuracy"],
)
history = classifier.fit(features, labels, batch_size=32, epochs=3, shuffle=False)
scores = classifier.evaluate(features, labels, verbose=0)
