"""Text: raw strings, a TextVectorization layer that is adapted, Conv1D, and an end-to-end model for serving."""

import re
import string

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(17)
max_features, embedding_dim, sequence_length = 400, 16, 24

rng = np.random.default_rng(18)
GOOD, BAD = ("Lovely", "moving", "funny!", "superb"), ("dull", "awful,", "boring", "a <br />mess")
FILLER = ("the", "film", "plot", "an", "actor", "scene", "of", "music", "and", "camera", "story.", "with")


def review(good):
    words = [str(rng.choice(FILLER)) for _ in range(rng.integers(6, 20))]
    words += [str(rng.choice(GOOD if rng.random() < (0.8 if good else 0.2) else BAD)) for _ in range(3)]
    return " ".join(rng.permutation(words))


labels = rng.integers(0, 2, size=400)
texts = [review(label) for label in labels]
raw_train_ds = tf.data.Dataset.from_tensor_slices((texts[:320], labels[:320])).batch(32)
raw_val_ds = tf.data.Dataset.from_tensor_slices((texts[320:], labels[320:])).batch(32)


@keras.saving.register_keras_serializable()
def custom_standardization(input_data):
    stripped = tf.strings.regex_replace(tf.strings.lower(input_data), "<br />", " ")
    return tf.strings.regex_replace(stripped, f"[{re.escape(string.punctuation)}]", "")


vectorize_layer = layers.TextVectorization(
    standardize=custom_standardization,
    max_tokens=max_features,
    output_mode="int",
    output_sequence_length=sequence_length,
)
vectorize_layer.adapt(raw_train_ds.map(lambda x, y: x))


def vectorize_text(text, label):
    return vectorize_layer(tf.expand_dims(text, -1)), label


train_ds = raw_train_ds.map(vectorize_text).cache().prefetch(buffer_size=10)
val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(buffer_size=10)

inputs = keras.Input(shape=(None,), dtype="int64")
x = layers.Embedding(max_features, embedding_dim)(inputs)
x = layers.Conv1D(16, 5, padding="valid", activation="relu", strides=2)(x)
x = layers.GlobalMaxPooling1D()(x)
x = layers.Dense(16, activation="relu")(x)
predictions_out = layers.Dense(1, activation="sigmoid", name="predictions")(x)
model = keras.Model(inputs, predictions_out)
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
history = model.fit(train_ds, validation_data=val_ds, epochs=4)

string_input = keras.Input(shape=(1,), dtype="string")
end_to_end = keras.Model(string_input, model(vectorize_layer(string_input)))
end_to_end.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
scores = end_to_end.evaluate(raw_val_ds, verbose=0)
