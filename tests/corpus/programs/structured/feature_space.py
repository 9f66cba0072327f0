"""Structured: columns of mixed types through a FeatureSpace that is adapted; crossed features, raw rows served."""

import keras
import numpy as np
import tensorflow as tf
from keras.utils import FeatureSpace

keras.utils.set_random_seed(27)

rng = np.random.default_rng(29)
columns = {
    "age": rng.uniform(30, 75, size=300).astype("float32"),
    "sex": rng.integers(0, 2, size=300),
    "thal": rng.choice(["fixed", "normal", "reversible"], size=300),
    "chol": rng.normal(240, 40, size=300).astype("float32"),
}
target = ((columns["age"] > 50) ^ (columns["thal"] == "fixed")).astype("int64")


def dataframe_to_dataset(first, last):
    part = {name: values[first:last] for name, values in columns.items()}
    return tf.data.Dataset.from_tensor_slices((part, target[first:last]))


train_ds, val_ds = dataframe_to_dataset(0, 240).batch(32), dataframe_to_dataset(240, 300).batch(32)
feature_space = FeatureSpace(
    features={
        "age": FeatureSpace.float_discretized(num_bins=8),
        "sex": FeatureSpace.integer_categorical(num_oov_indices=0),
        "thal": FeatureSpace.string_categorical(num_oov_indices=0),
        "chol": FeatureSpace.float_normalized(),
    },
    crosses=[FeatureSpace.cross(feature_names=("sex", "thal"), crossing_dim=8)],
    output_mode="concat",
)
feature_space.adapt(train_ds.map(lambda x, _: x))

preprocessed_train_ds = train_ds.map(lambda x, y: (feature_space(x), y)).prefetch(tf.data.AUTOTUNE)
preprocessed_val_ds = val_ds.map(lambda x, y: (feature_space(x), y)).prefetch(tf.data.AUTOTUNE)
encoded_features = feature_space.get_encoded_features()
x = keras.layers.Dense(32, activation="relu")(encoded_features)
outputs = keras.layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs=encoded_features, outputs=outputs)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(preprocessed_train_ds, epochs=5, validation_data=preprocessed_val_ds, verbose=2)

inference_model = keras.Model(inputs=feature_space.get_inputs(), outputs=model(encoded_features))
sample = {"age": [60.0], "sex": [1], "thal": ["fixed"], "chol": [233.0]}
predictions = inference_model.predict({name: keras.ops.convert_to_tensor(v) for name, v in sample.items()}, verbose=0)
