"""The command line of `python -m e2e.cluster`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2e.cluster import __main__ as command
from e2e.cluster import binaries, control_plane, images, parallel_build


def test_every_program_that_is_named_is_built_also_behind_kubectl(monkeypatch: pytest.MonkeyPatch):
    built: list[str] = []
    monkeypatch.setattr(command, "binaries", SimpleNamespace(ensure=lambda *names: built.extend(names)))
    assert command.main(["build", *binaries.CLUSTER, "helm"]) == 0
    assert built == [*binaries.CLUSTER, "helm"]


def test_images_are_built_beside_the_programs(monkeypatch: pytest.MonkeyPatch):
    said: list[str] = []

    @contextmanager
    def building_programs(*names: str) -> Iterator[None]:
        said.append(f"begin {' '.join(names)}")
        yield
        said.append("end")

    monkeypatch.setattr(parallel_build, "building_programs", building_programs)
    monkeypatch.setattr(images, "built", lambda: said.append("images"))
    monkeypatch.setattr(command, "binaries", SimpleNamespace(ensure=lambda *names: said.append(f"have {names[0]}")))
    assert command.main(["build", "--images", "etcd"]) == 0
    assert said == ["begin etcd", "images", "end", "have etcd"]


def test_what_stands_behind_the_command_kubectl_is_kubectls():
    assert command._split_kubectl(["--name", "x", "kubectl", "get", "pods", "--all", "kubectl"]) == (
        ["--name", "x"],
        ["kubectl"],
        ["get", "pods", "--all", "kubectl"],
    )


def test_kubectl_keeps_what_it_knows_of_a_server_apart_from_what_it_knew_of_its_predecessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program = tmp_path / "kubectl"
    program.write_text('#!/bin/sh\necho "$KUBECACHEDIR"\n')
    program.chmod(0o755)
    monkeypatch.setattr(binaries, "path", lambda name: tmp_path / name)
    assert control_plane.kubectl(tmp_path / "kubeconfig", "get", "pods", cache=tmp_path / "known").strip() == str(
        tmp_path / "known"
    )
