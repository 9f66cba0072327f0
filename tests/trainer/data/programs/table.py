"""Trains a linear model on the Parquet files of a directory, with validation; prints the end."""

import json
import sys

import keras

import dtj

dtj.init(seed=1)
source = dtj.data.parquet(sys.argv[1], columns=["a", "b"], label=sys.argv[2] if len(sys.argv) > 2 else "y")
inputs = {name: keras.Input((1,), name=name) for name in ("a", "b")}
model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(list(inputs.values()))))
model.compile(keras.optimizers.SGD(0.1), "mse")


def column(each, label):
    return {name: value[None] for name, value in each.items()}, label[None]


pipeline = dtj.data.Pipeline(source, map=column, shuffle=100)
result = dtj.fit(model, pipeline, validation_data=pipeline, epochs=4, batch_size=20)
sys.stdout.write("SAY " + json.dumps({"step": result.step, **result.metrics}) + "\n")
sys.stdout.flush()
