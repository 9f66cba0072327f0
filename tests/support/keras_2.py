"""Keras 2 as requirements/tf-keras.txt pins it."""

from pathlib import Path

from tests.support import pinned_packages


def folder() -> Path:
    """Return a directory for PYTHONPATH with tf_keras in it."""
    return pinned_packages.folder("tf-keras")
