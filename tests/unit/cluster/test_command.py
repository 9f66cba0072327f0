"""The words of `python -m e2e.cluster`."""

from types import SimpleNamespace

import pytest

from e2e.cluster import __main__ as command
from e2e.cluster import binaries


def test_every_program_that_is_named_is_built_also_behind_kubectl(monkeypatch: pytest.MonkeyPatch):
    built: list[str] = []
    monkeypatch.setattr(command, "binaries", SimpleNamespace(ensure=lambda *names: built.extend(names)))
    assert command.main(["build", *binaries.CLUSTER, "helm"]) == 0
    assert built == [*binaries.CLUSTER, "helm"]


def test_what_stands_behind_the_command_kubectl_is_kubectls():
    assert command._split_kubectl(["--name", "x", "kubectl", "get", "pods", "--all", "kubectl"]) == (
        ["--name", "x"],
        ["kubectl"],
        ["get", "pods", "--all", "kubectl"],
    )
