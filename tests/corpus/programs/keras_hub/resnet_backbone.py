"""Keras Hub: a small ResNet backbone whose batch normalization is frozen, under an image classifier of Keras Hub."""

import keras
import keras_hub
import numpy as np

NEEDS = ("keras_hub",)

keras.utils.set_random_seed(71)

rng = np.random.default_rng(74)
labels = rng.integers(0, 3, size=128)
images = rng.normal(0, 0.5, size=(128, 16, 16, 3)).astype("float32")
images[np.arange(128), 5 * labels] += 1.5

backbone = keras_hub.models.ResNetBackbone(
    input_conv_filters=[64],
    input_conv_kernel_sizes=[3],
    stackwise_num_filters=[64],
    stackwise_num_blocks=[1],
    stackwise_num_strides=[1],
    block_type="basic_block",
    image_shape=(16, 16, 3),
)
for layer in backbone.layers:
    if isinstance(layer, keras.layers.BatchNormalization):
        layer.trainable = False
model = keras_hub.models.ResNetImageClassifier(backbone=backbone, num_classes=3, preprocessor=None)
model.compile(
    optimizer=keras.optimizers.SGD(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(images, labels, batch_size=32, epochs=2, shuffle=False)
