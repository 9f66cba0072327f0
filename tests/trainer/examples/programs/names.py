"""Tells which of the names given as arguments TensorFlow does not have."""

import json
import sys

import tensorflow as tf

missing = []
for name in sys.argv[1:]:
    found = tf
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    if found is None:
        missing.append(name)
sys.stdout.write("TEST " + json.dumps({"missing": missing}) + "\n")
