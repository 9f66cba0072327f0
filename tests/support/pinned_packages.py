"""Packages of one file of requirements/, installed once beside the environment, which stays without them."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.cluster import locks, paths

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")


def folder(name: str) -> Path:
    """Return a directory for PYTHONPATH with what `requirements/<name>.txt` pins."""
    pins = REQUIREMENTS / f"{name}.txt"
    home = paths.cache() / name
    found = home / hashlib.sha256(pins.read_bytes()).hexdigest()[:16]
    with locks.held(home.with_suffix(".lock"), f"another run to install requirements/{name}.txt"):
        if not found.exists():
            home.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home) as scratch:
                made = Path(scratch) / "made"
                subprocess.run([sys.executable, *INSTALL, "--target", str(made), "-r", str(pins)], check=True)
                made.rename(found)
    return found
