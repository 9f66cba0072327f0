"""Time series: an endless Python generator of windows with `steps_per_epoch`; validation in arrays."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(36)

rng = np.random.default_rng(38)
series = np.cumsum(rng.normal(0, 0.1, size=(1200, 3)), axis=0).astype("float32")
series -= series[:800].mean(axis=0)
series /= series[:800].std(axis=0)


def generator(data, lookback, delay, min_index, max_index, batch_size=32, step=2):
    i = min_index + lookback
    while True:
        if i + batch_size >= max_index:
            i = min_index + lookback
        rows = np.arange(i, min(i + batch_size, max_index))
        i += len(rows)
        samples = np.stack([data[row - lookback : row : step] for row in rows])
        targets = data[rows + delay, 1]
        yield samples, targets


train_gen = generator(series, lookback=20, delay=5, min_index=0, max_index=800)
val_gen = generator(series, lookback=20, delay=5, min_index=801, max_index=1100)

val_batches = [next(val_gen) for _ in range(8)]
val_samples, val_targets = (np.concatenate(part) for part in zip(*val_batches, strict=True))

model = keras.Sequential()
model.add(layers.Input((None, series.shape[-1])))
model.add(layers.GRU(12))
model.add(layers.Dense(1))
model.compile(optimizer=keras.optimizers.RMSprop(), loss="mae")
history = model.fit(train_gen, steps_per_epoch=15, epochs=3, validation_data=(val_samples, val_targets))
