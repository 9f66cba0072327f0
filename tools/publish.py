"""Publishes images and chart, and signs them: `make publish-images`, `make publish-chart`, `make publish-signatures`.

$REGISTRY names the registry with its path, for instance `ghcr.io/someone`; log in to it first. The images get the
version of the project as their tag. The chart, in $REGISTRY/charts, names the registry and the digest of the operator's
image in its values. build/publish remembers the digests from one step to the next.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster import binaries, debian_base, images
from e2e.cluster.interface import ClusterError

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "charts" / "dtj-operator"
OPERATOR: Final = "dtj-operator"
TRAINER: Final = "dtj-trainer"
CHARTS: Final = "charts"
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
LOOPBACK: Final = re.compile(r"127\.0\.0\.1:")


@dataclass(frozen=True)
class Publication:
    """What is published in one registry; `folder` remembers the digests from one step to the next."""

    registry: str
    folder: Path

    def images(self) -> None:
        """Build both images, and copy them into the registry."""
        debian_base.install_tools("skopeo")
        for name, image in images.build_images().items():
            self.copy_image(name, image.archive)

    def copy_image(self, name: str, archive: Path) -> None:
        """Copy an archive of docker's format into the registry."""
        self.folder.mkdir(parents=True, exist_ok=True)
        target = f"{self.registry}/{name}:{version()}"
        digest = f"--digestfile={self.folder / name}"
        insecure = ["--dest-tls-verify=false"] if self._is_local else []
        run("skopeo", "copy", "--quiet", *insecure, digest, f"docker-archive:{archive}", f"docker://{target}")
        print(f"{target}@{self.digest(name)}")

    def chart(self) -> None:
        """Package the chart for this registry and the published image, and push it."""
        helm, insecure = str(binaries.path("helm")), ["--plain-http"] if self._is_local else []
        with tempfile.TemporaryDirectory() as folder:
            chart = shutil.copytree(CHART, Path(folder) / CHART.name)
            values = chart / "values.yaml"
            values.write_text(with_image(values.read_text(), self.registry, self.digest(OPERATOR)))
            run(helm, "package", str(chart), "--destination", folder)
            (package,) = Path(folder).glob("*.tgz")
            said = run(helm, "push", *insecure, str(package), f"oci://{self.registry}/charts")
        found = DIGEST.search(said)
        if not found:
            raise ClusterError(f"helm push has named no digest: {said.strip()}")
        (self.folder / CHARTS).write_text(found[0])
        print(f"oci://{self.registry}/charts/{CHART.name}:{version()}@{found[0]}")

    def signatures(self) -> None:
        """Sign what was published with the identity of the workflow (cosign, keyless)."""
        published = {OPERATOR: OPERATOR, TRAINER: TRAINER, CHARTS: f"{CHARTS}/{CHART.name}"}
        for name, repository in published.items():
            run("cosign", "sign", "--yes", f"{self.registry}/{repository}@{self.digest(name)}")
            print(f"signed {self.registry}/{repository}")

    def digest(self, name: str) -> str:
        """Return the digest of an image or of the chart, as an earlier step has written it."""
        file = self.folder / name
        if not file.exists():
            raise ClusterError(f"{name} has not been published from this checkout: run `make publish-images` first.")
        return file.read_text().strip()

    @property
    def _is_local(self) -> bool:
        """Whether this is the registry of a test, which has no TLS."""
        return LOOPBACK.match(self.registry) is not None


def with_image(values: str, registry: str, digest: str) -> str:
    """Return the chart's values with registry and digest of the operator's image as defaults."""
    for key, value in (("registry", registry), ("digest", digest)):
        values, count = re.subn(rf'^  {key}: ""$', f'  {key}: "{value}"', values, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"values.yaml has {count} lines with an empty {key}")
    return values


def version() -> str:
    """Return the project's version."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def run(*command: str) -> str:
    """Run a command; returns all that it says, or raises ClusterError with its last line."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        raise ClusterError(f"{command[0]} is missing: install it, then try again.") from None
    if done.returncode:
        last = (done.stdout.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"`{' '.join(command[:2])}` failed: {last}")
    return done.stdout


STEPS: Final = {
    "images": Publication.images,
    "chart": Publication.chart,
    "signatures": Publication.signatures,
}


def wanted(environment: Mapping[str, str]) -> Publication:
    """Return the publication that $REGISTRY names, if $TAG, where it is set, fits the project's version."""
    registry, tag = environment.get("REGISTRY", "").strip("/"), environment.get("TAG", "")
    if not registry:
        raise ClusterError("REGISTRY is empty: name a registry with its path, for instance ghcr.io/someone.")
    if tag and tag != f"v{version()}":
        raise ClusterError(f"TAG is {tag} and the project's version {version()}: tag the commit v{version()}.")
    return Publication(registry, ROOT / "build" / "publish")


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish the images and the chart.")
    parser.add_argument("step", choices=STEPS)
    step = STEPS[parser.parse_args().step]
    try:
        step(wanted(os.environ))
    except ClusterError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
