"""Keras 2 as requirements/tf-keras.txt pins it, installed once beside the environment, which stays without it."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.cluster import locks, paths

PINS = Path(__file__).parents[2] / "requirements" / "tf-keras.txt"
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")


def folder() -> Path:
    """Return a directory for PYTHONPATH with tf_keras in it."""
    home = paths.cache() / "tf-keras"
    found = home / hashlib.sha256(PINS.read_bytes()).hexdigest()[:16]
    with locks.held(home.with_suffix(".lock"), "another run to install tf_keras"):
        if not found.exists():
            home.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home) as scratch:
                made = Path(scratch) / "made"
                subprocess.run([sys.executable, *INSTALL, "--target", str(made), "-r", str(PINS)], check=True)
                made.rename(found)
    return found
