"""Files in the format of CIFAR-10's binary version: ten classes, each of its own colour.

The format, from the data set's own page: records of 3,073 bytes; the label, then 1,024 bytes each of red, green and
blue, row by row.
"""

from pathlib import Path

import numpy as np


def write(folder: Path, *, train: int, test: int) -> None:
    """Five files of `train` records each and one of `test`."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    colours = rng.permutation(np.linspace(40, 215, 30)).reshape(10, 3, 1, 1)
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for name in names:
        labels = rng.permutation(np.arange(test if name == "test_batch.bin" else train) % 10)
        noise = rng.integers(-40, 40, (len(labels), 3, 32, 32))
        records = np.concatenate([labels[:, None], (colours[labels] + noise).reshape(len(labels), -1)], 1)
        (folder / name).write_bytes(records.astype(np.uint8).tobytes())
