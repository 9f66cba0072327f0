"""Makes a model after init() and tells one of its first values; an argument is a seed that the program sets itself."""

import json
import os
import sys

import keras

import dtj

if len(sys.argv) > 1:
    keras.utils.set_random_seed(int(sys.argv[1]))
dtj.init()
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
sys.stdout.write("TEST " + json.dumps({"first": float(model.get_weights()[0][0, 0])}) + "\n")
sys.stdout.flush()
os._exit(0)
