"""The operator of the previous version: its wheel and chart, which e2e/previous keeps, and an image of the wheel."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from e2e.cluster import paths
from e2e.cluster.images import Image, Source, build_images

FOLDER: Final = Path(__file__).resolve().parent / "previous"
WHEEL: Final = next(FOLDER.glob("*.whl"))
CHART: Final = next(FOLDER.glob("dtj-operator-*.tgz"))
NAME: Final = "dtj-operator-previous"
DOCKERFILE: Final = "operator/Dockerfile"


def operator_image() -> Image:
    """Build the image of the previous operator, by the Dockerfile of this one."""
    source = Source(NAME, DOCKERFILE, ("requirements/operator.txt", "operator/dtj_operator"))
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder)
        for name in ("operator", "requirements"):
            (checkout / name).mkdir()
        with zipfile.ZipFile(WHEEL) as wheel:
            wheel.extractall(
                checkout / "operator", [name for name in wheel.namelist() if name.startswith("dtj_operator/")]
            )
        shutil.copy(FOLDER / "operator.txt", checkout / "requirements")
        for name in (DOCKERFILE, ".dockerignore"):
            shutil.copy(paths.CHECKOUT / name, checkout / name)
        return build_images((source,), checkout=checkout)[NAME]
