"""Text: several labels for each abstract; StringLookup and tf-idf inside of tf.data, early stopping on a metric."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(24)

rng = np.random.default_rng(26)
TOPICS = {"cs.LG": "gradient loss network", "cs.CV": "image pixel camera", "stat.ML": "prior posterior bayes"}
COMMON = "we show a new method for the large problem and its results"
chosen = [sorted(rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False)) for _ in range(300)]
abstracts = [
    " ".join(rng.permutation((COMMON + " " + " ".join(TOPICS[topic] for topic in topics)).split())) for topics in chosen
]

terms = tf.ragged.constant(chosen)
lookup = layers.StringLookup(output_mode="multi_hot")
lookup.adapt(terms.flat_values)
text_vectorizer = layers.TextVectorization(max_tokens=60, ngrams=2, output_mode="tf_idf")
text_vectorizer.adapt(tf.data.Dataset.from_tensor_slices(abstracts).batch(50))


def make_dataset(first, last):
    labels = np.stack([lookup(tf.constant(topics)).numpy() for topics in chosen[first:last]])
    dataset = tf.data.Dataset.from_tensor_slices((abstracts[first:last], labels)).batch(25)
    return dataset.map(lambda text, label: (text_vectorizer(text), label)).prefetch(2)


train_dataset, validation_dataset, test_dataset = make_dataset(0, 200), make_dataset(200, 250), make_dataset(250, 300)
shallow_mlp_model = keras.Sequential(
    [
        layers.Dense(32, activation="relu"),
        layers.Dense(16, activation="relu"),
        layers.Dense(lookup.vocabulary_size(), activation="sigmoid"),
    ]
)
shallow_mlp_model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["binary_accuracy"])
history = shallow_mlp_model.fit(
    train_dataset,
    validation_data=validation_dataset,
    epochs=5,
    callbacks=[keras.callbacks.EarlyStopping("val_binary_accuracy", patience=2, mode="max")],
)
scores = shallow_mlp_model.evaluate(test_dataset)
