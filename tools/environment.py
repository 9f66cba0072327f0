"""The Python environment of the project: created once, kept outside the checkout, identified by a hash.

Run with any Python 3.11 (`python3.11 tools/environment.py`); needs the standard library only. Prints the path of the
environment's interpreter on stdout, and progress on stderr. The environment is in `<cache>/venv/<key>`, where the key
is a hash of requirements/dev.txt and of this interpreter. It is complete when it contains the file `complete`: an
interrupted installation is removed and started again. Another Python is used when its version is the argument
(`python3.12 tools/environment.py 3.12`); its environment is in `<cache>/venv-3.12/<key>`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "dev.txt"
VERSION = "3.11"
"""Of Python, unless said otherwise."""
NEEDED_BYTES = 3_500_000_000
"""TensorFlow and its wheels while they are unpacked: 1.9 GB when done."""


class EnvironmentImpossibleError(Exception):
    """The environment cannot be created; the message says what is missing, and what to do."""


def cache() -> Path:
    """Return the directory in which the project keeps what is expensive to build."""
    if given := os.environ.get("DTJ_CACHE"):
        return Path(given).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "dtj"


def key() -> str:
    """Return sixteen hexadecimal digits that change with the requirements or the interpreter."""
    made_from = f"{sys.version}\n{sys.base_prefix}\n".encode() + REQUIREMENTS.read_bytes()
    return hashlib.sha256(made_from).hexdigest()[:16]


def check_prerequisites(where: Path, version: str = VERSION) -> None:
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != version:
        msg = (
            f"The project runs on Python {version} and this is {sys.version.split()[0]}: "
            f"call make with PYTHON=<path of python{version}>."
        )
        raise EnvironmentImpossibleError(msg)
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        msg = f"{sys.executable} has no venv or no pip in it: install them with `apt-get install python3-venv`."
        raise EnvironmentImpossibleError(msg)
    try:
        where.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=where):
            pass
        free = shutil.disk_usage(where).free
    except OSError as problem:
        msg = (
            f"The cache directory {where} cannot be written ({problem.strerror}): "
            "set DTJ_CACHE to a directory you may write."
        )
        raise EnvironmentImpossibleError(msg) from problem
    if free < NEEDED_BYTES:
        msg = (
            f"{where} has {free / 1e9:.1f} GB free and the Python environment needs {NEEDED_BYTES / 1e9:.1f} GB: "
            "free some space, or set DTJ_CACHE to a directory on a larger disk."
        )
        raise EnvironmentImpossibleError(msg)


def install(venv: Path) -> None:
    """Create the environment; on failure nothing of it is left."""
    began = time.monotonic()
    say(f"making the Python environment in {venv} (once, about two minutes)")
    shutil.rmtree(venv, ignore_errors=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True, stdout=sys.stderr)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*pip, "--only-binary=:all:", "--require-hashes", "-r", str(REQUIREMENTS)], check=True, stdout=sys.stderr
        )
        (venv / "complete").touch()
    except subprocess.CalledProcessError as problem:
        shutil.rmtree(venv, ignore_errors=True)
        step = "pip" if "pip" in problem.cmd else "venv"
        msg = (
            f"{step} could not make the Python environment (its own words stand above): "
            "check the network and the disk, then run the same command again."
        )
        raise EnvironmentImpossibleError(msg) from problem
    except BaseException:
        shutil.rmtree(venv, ignore_errors=True)
        raise
    say(f"Python environment ready after {time.monotonic() - began:.0f} s")


def interpreter(version: str = VERSION) -> Path:
    """Return the environment's Python, creating the environment if it is missing."""
    home = cache() / ("venv" if version == VERSION else f"venv-{version}")
    venv = home / key()
    python = venv / "bin" / "python"
    if (venv / "complete").exists():
        return python
    check_prerequisites(home, version)
    with (home / f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").exists():
            install(venv)
    return python


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    try:
        print(interpreter(*sys.argv[1:]))
    except EnvironmentImpossibleError as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
