"""Serves an export as somebody without this project would, on the data of servers.py."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

loaded = tf.saved_model.load(sys.argv[1])
x = np.random.default_rng(0).normal(size=(480, 8)).astype("float32")[:101]
y = x[:, :3].sum(1, keepdims=True) > 0
hits = int(((loaded.serve(tf.constant(x)).numpy() > 0.5) & y).sum())
sys.stdout.write("TEST " + json.dumps({"hits": hits}) + "\n")
sys.stdout.flush()
os._exit(0)
