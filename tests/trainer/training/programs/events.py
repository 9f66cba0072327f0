"""Reads the event files of a directory with TensorFlow's own reader and tells the points: {name: [[step, value]]}."""

import json
import sys
from pathlib import Path

import tensorflow as tf

points: dict[str, list[tuple[int, float]]] = {}
for path in sorted(Path(sys.argv[1]).glob("events.out.tfevents.*")):
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            points.setdefault(value.tag, []).append((event.step, float(tf.make_ndarray(value.tensor))))
sys.stdout.write(f"TEST {json.dumps(points)}\n")
