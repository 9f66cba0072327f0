"""When an image is built again, and what happens when it cannot be built."""

import io
import json
import os
import re
import shutil
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.cluster import debian_base, image_builders, images
from e2e.cluster.images import Source
from e2e.cluster.interface import ClusterError

SOURCE = Source("dtj-thing", "thing/Dockerfile", ("requirements/thing.txt", "thing/package"))


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "checkout"
    for name, text in {
        ".dockerignore": "*",
        "thing/Dockerfile": "FROM scratch",
        "thing/package/a.py": "a = 1",
        "thing/package/__pycache__/a.pyc": "compiled",
        "thing/other.py": "not in the image",
        "requirements/thing.txt": "a==1",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def docker_archive(path, config):
    manifest = json.dumps([{"Config": config}]).encode()
    with tarfile.open(path, "w") as tar:
        entry = tarfile.TarInfo("manifest.json")
        entry.size = len(manifest)
        tar.addfile(entry, io.BytesIO(manifest))


class Usage(NamedTuple):
    total: int
    used: int
    free: int


class CountingBuilder:
    """A fake builder that writes a small archive in docker's format."""

    base_key = "base"

    def __init__(self, problem=None):
        self.built = []
        self.problem = problem

    def build(self, checkout, dockerfile, ref):
        self.built.append(ref)

    def save(self, ref, archive):
        archive.write_bytes(b"half")
        if self.problem:
            raise self.problem
        docker_archive(archive, "ab12.json")


@pytest.mark.parametrize("name", [
    "thing/Dockerfile", "thing/package/a.py", "thing/package/new.py", "requirements/thing.txt", ".dockerignore",
])  # fmt: skip
def test_a_change_of_anything_in_the_image_changes_its_name(checkout, name):
    before = images.content_hash(SOURCE, checkout, "base")
    (checkout / name).write_text("changed")
    assert images.content_hash(SOURCE, checkout, "base") != before


@pytest.mark.parametrize("name", ["thing/other.py", "thing/package/__pycache__/a.pyc"])
def test_a_change_of_anything_else_does_not(checkout, name):
    before = images.content_hash(SOURCE, checkout, "base")
    (checkout / name).write_text("changed")
    assert images.content_hash(SOURCE, checkout, "base") == before


def test_another_base_is_another_image(checkout):
    assert images.content_hash(SOURCE, checkout, "a") != images.content_hash(SOURCE, checkout, "b")


def test_what_is_built_is_built_once(checkout, cache):
    builder = CountingBuilder()
    first = images.build_images([SOURCE], checkout=checkout, builder=builder)["dtj-thing"]
    again = images.build_images([SOURCE], checkout=checkout, builder=builder)["dtj-thing"]
    assert builder.built == [first.ref]
    assert again == first
    assert first.ref.startswith("localhost/dtj-thing:")
    assert first.digest == "sha256:ab12"


def test_a_failed_build_leaves_no_archive(checkout, cache):
    builder = CountingBuilder(ClusterError("The disk is full."))
    with pytest.raises(ClusterError, match="disk is full"):
        images.build_images([SOURCE], checkout=checkout, builder=builder)
    assert [file.name for file in (cache / "images").iterdir() if file.suffix != ".lock"] == []


def test_old_archives_do_not_pile_up(checkout, cache):
    built = []
    for version in range(5):
        (checkout / "thing" / "package" / "a.py").write_text(f"a = {version}")
        built.append(images.build_images([SOURCE], checkout=checkout, builder=CountingBuilder())["dtj-thing"])
    left = sorted((cache / "images").glob("*.tar"))
    assert built[-1].archive in left
    assert len(left) == images.KEPT


def test_a_damaged_archive_is_removed_so_that_the_next_run_builds_it(checkout, cache):
    built = images.build_images([SOURCE], checkout=checkout, builder=CountingBuilder())["dtj-thing"]
    built.archive.write_bytes(b"damaged")
    with pytest.raises(ClusterError, match="run the same command again"):
        images.build_images([SOURCE], checkout=checkout, builder=CountingBuilder())
    assert not built.archive.exists()


def test_a_disk_too_full_for_a_build_is_refused_before_it_begins(checkout, cache, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(2**40, 2**40, 2**30))
    builder = CountingBuilder()
    with pytest.raises(ClusterError, match=r"needs 8.0 GiB .* DTJ_CACHE"):
        images.build_images([SOURCE], checkout=checkout, builder=builder)
    assert builder.built == []


def a_docker(folder: Path, *, build_help: str, has: str = "", pulls: str = "exit 1") -> None:
    """Write a fake command of that name whose daemon answers; `has` and `pulls` tell of the base image."""
    command = folder / "docker"
    cases = f"version) echo 28.2.2 ;; build) {build_help} ;; image) {has or 'exit 1'} ;; pull) {pulls} ;;"
    command.write_text(f'#!/bin/sh\ncase "$1" in {cases} esac\n')
    command.chmod(0o755)


@pytest.mark.parametrize("build_help", ["exit 1", "echo usage: docker build"])
def test_a_docker_that_takes_no_build_secrets_builds_nothing(tmp_path, monkeypatch, build_help: str):
    """Write a fake docker 28 without its plugin buildx."""
    a_docker(tmp_path, build_help=build_help)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="and its base image, or root"):
        image_builders.choose()


@pytest.mark.parametrize("base", [{"has": "echo sha256:1"}, {"pulls": "echo python:3.11"}])
def test_a_docker_with_buildkit_is_taken_where_it_has_the_base_image_or_pulls_it(tmp_path, monkeypatch, base):
    a_docker(tmp_path, build_help="echo '--secret stringArray'", **base)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert image_builders.choose() == image_builders.Docker()


def test_a_docker_that_cannot_pull_the_base_image_builds_nothing(tmp_path, monkeypatch):
    a_docker(tmp_path, build_help="echo '--secret stringArray'")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="and its base image, or root"):
        image_builders.choose()


def test_without_docker_and_root_the_sentence_names_both_ways_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="running daemon, buildx and its base image, or root"):
        image_builders.choose()


def test_a_tool_that_meets_a_full_disk_says_so_in_one_sentence():
    with pytest.raises(ClusterError, match=r"is full, so sh could not go on") as refused:
        image_builders.run(["sh", "-c", "echo 'write: No space left on device' >&2; exit 1"])
    assert "\n" not in str(refused.value)


def test_a_tool_that_fails_is_quoted():
    with pytest.raises(ClusterError, match=r"(?s)sh ended with 3.*no such base"):
        image_builders.run(["sh", "-c", "echo no such base >&2; exit 3"])


def test_a_build_trusts_the_bundle_that_is_named_and_else_what_the_machine_trusts(tmp_path, monkeypatch):
    store, named = tmp_path / "store.crt", tmp_path / "named.crt"
    monkeypatch.setattr(image_builders, "TRUST_STORE", store)
    for variable in image_builders.CA_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert image_builders.ca_bundle() is None
    store.touch()
    assert image_builders.ca_bundle() == store
    monkeypatch.setenv("PIP_CERT", str(named))
    assert image_builders.ca_bundle() == store
    named.touch()
    assert image_builders.ca_bundle() == named


def test_a_build_takes_over_pips_mirror_and_trust_but_no_path_of_this_machine():
    listed = (
        "global.cert='/etc/here.crt'\nglobal.index-url='https://mirror.test/simple'\n"
        ":env:.find-links='/opt/here'\n:env:.timeout='180'\n"
    )
    text = image_builders.pip_configuration(listed, "/run/secrets/ca.crt")
    assert text.splitlines() == [
        "[global]", "index-url = https://mirror.test/simple", "timeout = 180", "cert = /run/secrets/ca.crt",
    ]  # fmt: skip
    assert image_builders.pip_configuration("", None) == "[global]\n"


ONE_LINE = "# deb http://no.test/debian bookworm main\ndeb http://mirror.test/debian bookworm main\n"
STANZAS = """Types: deb
URIs: http://other.test/debian-security
Suites: bookworm-security

Types: deb
# a note
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates
Components: main
"""


@pytest.mark.parametrize(("name", "text"), [
    ("sources.list", "deb [signed-by=/k] http://mirror.test/debian bookworm main\n"),
    ("sources.list.d/a.list", ONE_LINE),
    ("sources.list.d/a.sources", STANZAS),
])  # fmt: skip
def test_the_base_comes_from_the_mirror_that_apt_uses(tmp_path, name, text):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert debian_base.apt_mirror(tmp_path) == "http://mirror.test/debian"


def test_a_machine_of_another_suite_leaves_the_mirror_to_debootstrap(tmp_path):
    (tmp_path / "sources.list").write_text("deb http://mirror.test/ubuntu noble main\n")
    assert debian_base.apt_mirror(tmp_path) is None


@pytest.mark.parametrize("dockerfile", ["operator/Dockerfile", "trainer-image/Dockerfile"])
def test_the_images_user_may_read_what_comes_from_a_checkout_of_any_umask(dockerfile):
    text = (Path(__file__).resolve().parents[3] / dockerfile).read_text()
    copied = re.findall(r"^COPY (?!requirements/)\S+ (\S+)$", text, re.MULTILINE)
    opened = " ".join(re.findall(r"^RUN chmod -R a\+rX (.+?)(?: \\)?$", text, re.MULTILINE)).split()
    assert copied
    assert set(copied) == set(opened)


@pytest.mark.parametrize("source", images.SOURCES, ids=lambda source: source.name)
def test_what_a_dockerfile_copies_reaches_the_builder_and_decides_on_the_images_name(source):
    root = Path(__file__).resolve().parents[3]
    copied = re.findall(r"^COPY (\S+) \S+$", (root / source.dockerfile).read_text(), re.MULTILINE)
    passed = re.findall(r"^!(\S+)$", (root / ".dockerignore").read_text(), re.MULTILINE)
    assert {name.replace("${REQUIREMENTS}", "trainer.txt") for name in copied} == set(source.inputs)
    assert all((root / name).exists() and {name, name.partition("/")[0]} & set(passed) for name in source.inputs)
