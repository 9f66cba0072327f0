"""Vision: a U-Net that segments images read by a PyDataset with workers; validation from a second PyDataset."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(11)


class Shapes(keras.utils.PyDataset):
    """Draws a circle or a box on noise; the target has the class of each pixel."""

    def __init__(self, first, count, batch_size, **kwargs):
        super().__init__(**kwargs)
        self.first, self.count, self.batch_size = first, count, batch_size

    def __len__(self):
        return int(np.ceil(self.count / self.batch_size))

    def __getitem__(self, index):
        start = self.first + index * self.batch_size
        stop = min(self.first + self.count, start + self.batch_size)
        pairs = [self.draw(number) for number in range(start, stop)]
        return np.stack([image for image, _ in pairs]), np.stack([mask for _, mask in pairs])

    def draw(self, number):
        rng = np.random.default_rng(number)
        row, column = np.mgrid[0:16, 0:16]
        y, x = rng.uniform(5, 11, size=2)
        distance = (row - y) ** 2 + (column - x) ** 2 if number % 2 else np.maximum(abs(row - y), abs(column - x)) ** 2
        mask = np.where(distance < 12, 1 + number % 2, 0)[..., None].astype("uint8")
        image = (mask > 0) + rng.normal(0, 0.3, size=(16, 16, 1))
        return image.astype("float32"), mask


def get_model(img_size, num_classes):
    inputs = keras.Input(shape=(*img_size, 1))
    first = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.MaxPooling2D()(first)
    second = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(second)
    x = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    x = layers.concatenate([layers.UpSampling2D()(x), second])
    x = layers.Conv2DTranspose(8, 3, padding="same", activation="relu")(x)
    x = layers.concatenate([layers.UpSampling2D()(x), first])
    outputs = layers.Conv2D(num_classes, 3, activation="softmax", padding="same")(x)
    return keras.Model(inputs, outputs)


train = Shapes(0, 200, 24, workers=2, use_multiprocessing=False)
validation = Shapes(1000, 40, 24)
model = get_model((16, 16), 3)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy")
history = model.fit(train, epochs=3, validation_data=validation, shuffle=False, verbose=2)
predictions = model.predict(validation, verbose=0)
