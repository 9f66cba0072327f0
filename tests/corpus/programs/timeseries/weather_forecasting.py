"""Time series: `timeseries_dataset_from_array`, an LSTM, EarlyStopping with ModelCheckpoint of the weights."""

import keras
import numpy as np

keras.utils.set_random_seed(33)
past, future, step, batch_size = 24, 6, 2, 32

rng = np.random.default_rng(35)
hour = np.arange(900)
temperature = np.sin(hour / 24 * 2 * np.pi) + 0.3 * np.sin(hour / 200) + 0.1 * rng.normal(size=900)
pressure = np.cos(hour / 24 * 2 * np.pi) + 0.1 * rng.normal(size=900)
features = np.stack([temperature, pressure], axis=1).astype("float32")
features = (features - features[:600].mean(axis=0)) / features[:600].std(axis=0)


def windows(first, last):
    return keras.utils.timeseries_dataset_from_array(
        features[first:last],
        features[first + past + future : last + past + future, 0],
        sequence_length=past // step,
        sampling_rate=step,
        batch_size=batch_size,
    )


dataset_train, dataset_val = windows(0, 600), windows(630, 860)
for inputs_sample, _ in dataset_train.take(1):
    print("Input shape:", inputs_sample.numpy().shape)
inputs = keras.layers.Input(shape=(inputs_sample.shape[1], inputs_sample.shape[2]))
lstm_out = keras.layers.LSTM(16)(inputs)
model = keras.Model(inputs=inputs, outputs=keras.layers.Dense(1)(lstm_out))
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.005), loss="mse")
history = model.fit(
    dataset_train,
    epochs=4,
    validation_data=dataset_val,
    callbacks=[
        keras.callbacks.EarlyStopping(monitor="val_loss", min_delta=0, patience=5),
        keras.callbacks.ModelCheckpoint(
            monitor="val_loss",
            filepath="model_checkpoint.weights.h5",
            verbose=1,
            save_weights_only=True,
            save_best_only=True,
        ),
    ],
)
for x, _ in dataset_val.take(1):
    predictions = model.predict(x, verbose=0)
