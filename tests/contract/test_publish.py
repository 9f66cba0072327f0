"""The steps of .github/workflows/publish.yaml, with a real registry. Nothing is signed: there is no cosign here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.cluster import binaries, debian_base, debian_programs, scratch_image
from e2e.cluster.interface import ClusterError
from e2e.cluster.wait import wait_until
from tests.support.chart import one
from tests.support.ports import free_port
from tools.publish import Publication, run, version

pytestmark = pytest.mark.contract


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Run Debian's registry; returns its address, with a path."""
    port = free_port()
    config = {
        "version": "0.1",
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    (tmp_path / "registry.yaml").write_text(yaml.safe_dump(config))
    program = debian_programs.ensure("docker-registry", "docker-registry") / "docker-registry"
    log = tmp_path / "registry.log"
    with (
        log.open("wb") as output,
        subprocess.Popen([program, "serve", tmp_path / "registry.yaml"], stdout=output, stderr=output) as process,
    ):

        def answers() -> bool:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/", timeout=1).close()
            except OSError:
                return False
            return True

        try:
            wait_until(answers, 30, log.read_text)
            yield f"127.0.0.1:{port}/someone"
        finally:
            process.terminate()


def test_a_published_chart_installs_the_published_image(registry: str, tmp_path: Path):
    publication = Publication(registry, tmp_path / "publish")
    with pytest.raises(ClusterError, match="run `make publish-images` first"):
        publication.chart()
    debian_base.install_tools("skopeo")
    # A small image in the place of the operator's.
    publication.copy_image("dtj-operator", scratch_image.archive("pause", "localhost/dtj-pause:test"))
    publication.chart()
    published = f"oci://{registry}/charts/dtj-operator"
    helm = str(binaries.path("helm"))
    rendered = run(helm, "template", "dtj-operator", published, "--version", version(), "--plain-http")
    documents = [each for each in yaml.safe_load_all(rendered[rendered.index("---") :]) if each]
    (container,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    image, _, digest = container["image"].partition("@")
    assert (image, digest) == (f"{registry}/dtj-operator", publication.digest("dtj-operator"))
    host, _, path = image.partition("/")
    with urllib.request.urlopen(f"http://{host}/v2/{path}/manifests/{digest}", timeout=10) as answer:
        assert json.load(answer)["schemaVersion"] == 2


def test_a_release_is_refused_where_tag_and_version_differ_or_no_registry_is_named(tmp_path: Path):
    def said(**environment: str) -> str:
        command = [sys.executable, "-m", "tools.publish", "signatures"]
        done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    assert f"tag the commit v{version()}" in said(REGISTRY="example.org/me", TAG="v9.9.9")
    assert "REGISTRY is empty" in said(REGISTRY="")


def test_all_that_is_published_is_signed_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    digests = {
        name: f"sha256:{number * 64}"
        for number, name in zip("123", ("dtj-operator", "dtj-trainer", "charts"), strict=True)
    }
    for name, digest in digests.items():
        (tmp_path / name).write_text(digest)
    told = tmp_path / "told"
    (tmp_path / "cosign").write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    (tmp_path / "cosign").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    Publication("example.org/me", tmp_path).signatures()
    assert told.read_text().splitlines() == [
        f"sign --yes example.org/me/dtj-operator@{digests['dtj-operator']}",
        f"sign --yes example.org/me/dtj-trainer@{digests['dtj-trainer']}",
        f"sign --yes example.org/me/charts/dtj-operator@{digests['charts']}",
    ]
