"""Reads one hand-made record through the example's reader."""

import json
import runpy
import sys
from pathlib import Path

read = runpy.run_path(sys.argv[1])["read"]

folder = Path(sys.argv[2])
record = bytearray(3073)
record[0] = 7
record[1 + 2 * 32 + 5] = 10  # red of the pixel in row 2, column 5
record[1 + 1024 + 2 * 32 + 5] = 20
record[1 + 2048 + 2 * 32 + 5] = 30
(folder / "test_batch.bin").write_bytes(record * 2)
images, labels = read(folder, "test_batch.bin")
told = {"shape": images.shape, "pixel": images[1, 2, 5].tolist(), "sum": int(images.sum()), "labels": labels.tolist()}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
