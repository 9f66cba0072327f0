"""What the training process imports of its own: it is imported while TensorFlow's library is still being loaded."""

import subprocess
import sys

LARGE = ("asyncio", "fsspec", "keras", "logging", "numpy", "pyarrow", "subprocess", "tensorflow")
PROGRAM = f"import sys, dtj_trainer.process.main; print(*(name for name in {LARGE} if name in sys.modules))"


def test_nothing_large_is_imported_for_it():
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []
