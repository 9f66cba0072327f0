"""Time series: a transformer; ReduceLROnPlateau, EarlyStopping, ModelCheckpoint, and the best model is loaded."""

import keras
import numpy as np
from keras import layers

SHARED = True  # all workers read what the chief saved, as on a volume

keras.utils.set_random_seed(35)

rng = np.random.default_rng(37)
y = rng.integers(0, 2, size=360)
time = np.linspace(0, 1, 40)
x = np.sin(2 * np.pi * (3 + y[:, None]) * time + rng.uniform(0, 6, size=(360, 1))) + 0.3 * rng.normal(size=(360, 40))
x = x[..., None].astype("float32")


def transformer_encoder(inputs, head_size, num_heads, ff_dim):
    attended = layers.MultiHeadAttention(key_dim=head_size, num_heads=num_heads)(inputs, inputs)
    res = layers.LayerNormalization(epsilon=1e-6)(attended) + inputs
    hidden = layers.Conv1D(filters=ff_dim, kernel_size=1, activation="relu")(res)
    hidden = layers.Conv1D(filters=inputs.shape[-1], kernel_size=1)(hidden)
    return layers.LayerNormalization(epsilon=1e-6)(hidden) + res


inputs = keras.Input(shape=x.shape[1:])
hidden = layers.Conv1D(8, 5, strides=2, activation="relu")(inputs)
for _ in range(2):
    hidden = transformer_encoder(hidden, 8, 2, 8)
hidden = layers.GlobalAveragePooling1D(data_format="channels_last")(hidden)
hidden = layers.Dense(16, activation="relu")(hidden)
model = keras.Model(inputs, layers.Dense(2, activation="softmax")(hidden))
callbacks = [
    keras.callbacks.ModelCheckpoint("best_model.keras", save_best_only=True, monitor="val_loss"),
    keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, min_lr=0.0001, min_delta=0.05),
    keras.callbacks.EarlyStopping(monitor="val_loss", patience=50, verbose=1),
]
model.compile(
    optimizer=keras.optimizers.Adam(0.002),
    loss="sparse_categorical_crossentropy",
    metrics=["sparse_categorical_accuracy"],
)
history = model.fit(
    x[:300], y[:300], batch_size=32, epochs=4, callbacks=callbacks, validation_split=0.2, shuffle=False, verbose=2
)
best = keras.models.load_model("best_model.keras")
scores = best.evaluate(x[300:], y[300:])
