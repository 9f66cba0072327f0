"""Vision: a vision transformer with patches as a custom layer, AdamW, and a top-k metric."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(13)
num_classes, image_size, patch_size, projection_dim = 6, 12, 4, 16
num_patches = (image_size // patch_size) ** 2


class Patches(layers.Layer):
    def __init__(self, patch_size):
        super().__init__()
        self.patch_size = patch_size

    def call(self, images):
        patches = ops.image.extract_patches(images, size=self.patch_size)
        return ops.reshape(patches, (ops.shape(images)[0], num_patches, self.patch_size * self.patch_size * 3))


class PatchEncoder(layers.Layer):
    def __init__(self, num_patches, projection_dim):
        super().__init__()
        self.num_patches = num_patches
        self.projection = layers.Dense(units=projection_dim)
        self.position_embedding = layers.Embedding(input_dim=num_patches, output_dim=projection_dim)

    def call(self, patch):
        positions = ops.expand_dims(ops.arange(start=0, stop=self.num_patches, step=1), axis=0)
        return self.projection(patch) + self.position_embedding(positions)


rng = np.random.default_rng(13)
labels = rng.integers(0, num_classes, size=360)
images = rng.normal(0, 0.5, size=(360, image_size, image_size, 3)).astype("float32")
for image, label in zip(images, labels, strict=True):
    image[4 * (label // 3) :, 4 * (label % 3) : 4 * (label % 3) + 4] += 1.0

inputs = keras.Input(shape=(image_size, image_size, 3))
normalization = layers.Normalization()
normalization.adapt(images)
encoded = PatchEncoder(num_patches, projection_dim)(Patches(patch_size)(normalization(inputs)))
for _ in range(2):
    x1 = layers.LayerNormalization(epsilon=1e-6)(encoded)
    attention = layers.MultiHeadAttention(num_heads=2, key_dim=projection_dim)(x1, x1)
    x2 = layers.Add()([attention, encoded])
    x3 = layers.Dense(projection_dim, activation=keras.activations.gelu)(layers.LayerNormalization(epsilon=1e-6)(x2))
    encoded = layers.Add()([x3, x2])
representation = layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(encoded))
model = keras.Model(inputs, layers.Dense(num_classes)(representation))
model.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=1e-3, weight_decay=1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[
        keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        keras.metrics.SparseTopKCategoricalAccuracy(2, name="top-2-accuracy"),
    ],
)
history = model.fit(x=images, y=labels, batch_size=36, epochs=2, validation_split=0.1, shuffle=False)
