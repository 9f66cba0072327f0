"""`make docs`: builds the site of the docs into build/site, or serves it on this machine (`DOCS_ARGS=serve`).

What mkdocs needs is installed beside the environment of make (requirements/docs.txt). Every warning fails the build,
for instance one about a link that leads nowhere.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tests.support import pinned_packages

ROOT = Path(__file__).resolve().parent.parent


def mkdocs(*arguments: str) -> int:
    """Run mkdocs with its packages on the path; return its exit code."""
    path = os.pathsep.join((str(pinned_packages.folder("docs")), str(ROOT)))
    environment = os.environ | {"PYTHONPATH": path, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *arguments], cwd=ROOT, env=environment, check=False
    ).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="make docs", description="Build the site of the docs into build/site.")
    parser.add_argument("what", nargs="?", choices=("build", "serve"), default="build")
    try:
        return mkdocs(parser.parse_args().what, "--quiet", "--strict")
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
