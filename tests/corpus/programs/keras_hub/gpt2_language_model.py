"""Keras Hub: a small GPT-2 learns a language; packed tokens in tf.data with weights, then it generates."""

import keras
import keras_hub
import numpy as np
import tensorflow as tf

NEEDS = ("keras_hub",)

keras.utils.set_random_seed(70)

rng = np.random.default_rng(73)
tokens = ((np.cumsum(rng.integers(1, 4, size=(160, 13)), axis=1)) % 50).astype("int32")
mask = np.ones((160, 12), "int32")


def pack(tokens, mask):
    return {"token_ids": tokens[:, :-1], "padding_mask": mask}, tokens[:, 1:], tf.cast(mask, tf.float32)


dataset = tf.data.Dataset.from_tensor_slices((tokens, mask)).batch(32).map(pack)
backbone = keras_hub.models.GPT2Backbone(
    vocabulary_size=50,
    num_layers=2,
    num_heads=2,
    hidden_dim=16,
    intermediate_dim=32,
    dropout=0.0,
    max_sequence_length=12,
)
gpt2_lm = keras_hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
gpt2_lm.compile(
    optimizer=keras.optimizers.SGD(keras.optimizers.schedules.PolynomialDecay(0.2, 15, 0.01)),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
)
history = gpt2_lm.fit(dataset, epochs=3)
prompt = {"token_ids": tokens[:2, :12], "padding_mask": np.array([[1] * 4 + [0] * 8] * 2, "int32")}
generated = gpt2_lm.generate(prompt, stop_token_ids=None)
print(generated["token_ids"])
