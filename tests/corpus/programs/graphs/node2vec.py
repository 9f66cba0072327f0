"""Graphs: node embeddings by random walks and negative samples; dict inputs, weights for pairs."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(53)
num_nodes = 60

rng = np.random.default_rng(56)
neighbours = [np.unique(np.concatenate([[(n - 1) % 60, (n + 1) % 60], rng.integers(0, 60, size=1)])) for n in range(60)]
pairs = {}
for start in range(num_nodes):
    walk = [start]
    for _ in range(8):
        walk.append(int(rng.choice(neighbours[walk[-1]])))
    for i, target in enumerate(walk):
        for context in walk[max(0, i - 2) : i + 3]:
            pairs[target, context, 1] = pairs.get((target, context, 1), 0) + 1
        pairs[target, int(rng.integers(num_nodes)), 0] = 1
targets, contexts, labels = (np.array(column) for column in zip(*pairs, strict=True))
weights = np.array(list(pairs.values()), "float32")

inputs = ({"target": targets, "context": contexts}, labels.astype("float32")[:, None], weights)
dataset = tf.data.Dataset.from_tensor_slices(inputs).batch(128, drop_remainder=True).prefetch(tf.data.AUTOTUNE)

target_input, context_input = (layers.Input(name=name, shape=(), dtype="int32") for name in ("target", "context"))
embed_item = layers.Embedding(
    input_dim=num_nodes, output_dim=12, embeddings_initializer="he_normal", name="item_embeddings"
)
logits = layers.Dot(axes=1, normalize=False, name="dot_similarity")(
    [embed_item(target_input), embed_item(context_input)]
)
model = keras.Model(inputs={"target": target_input, "context": context_input}, outputs=logits)
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=0.01), loss=keras.losses.BinaryCrossentropy(from_logits=True)
)
history = model.fit(dataset, epochs=4)
embeddings = model.get_layer("item_embeddings").get_weights()[0]
print("Embeddings shape:", embeddings.shape)
