"""What is built, and what its cache key depends on."""

from pathlib import Path

import pytest

from e2e.cluster import binaries
from e2e.cluster.interface import ClusterError
from e2e.cluster.toolchain import Go, release

GO = Go(Path("/usr/bin/go"), "go1.26.6 linux/amd64")


def test_every_program_is_a_pinned_tool_or_a_pinned_module_of_our_own():
    for program in binaries.PROGRAMS.values():
        own = program.package == "."
        text = (program.directory / ("main.go" if own else "go.mod")).read_text()
        assert ("package main" if own else program.package) in text
        assert (program.directory / "go.sum").exists()


def test_kubernetes_reports_the_version_that_its_module_pins():
    module = (binaries.PROGRAMS["kubelet"].directory / "go.mod").read_text()
    assert f"k8s.io/kubernetes {binaries.KUBERNETES}" in module
    assert f"gitVersion={binaries.KUBERNETES}" in binaries.PROGRAMS["kubelet"].ldflags


def test_another_go_gives_another_binary():
    etcd = binaries.PROGRAMS["etcd"]
    assert binaries.cached(etcd, GO) != binaries.cached(etcd, Go(GO.command, "go1.27.0 linux/amd64"))


def test_the_callers_build_flags_change_nothing(monkeypatch):
    plain = GO.environment()
    for name, value in (("GOFLAGS", "-race"), ("GOOS", "plan9"), ("GOTOOLCHAIN", "auto"), ("CGO_ENABLED", "1")):
        monkeypatch.setenv(name, value)
    assert GO.environment() == plain
    assert plain["GOTOOLCHAIN"] == "local"
    assert "-mod=readonly" in plain["GOFLAGS"]


def test_the_minimum_go_is_the_newest_that_a_module_asks_for():
    assert binaries.minimum_go() >= (1, 25)


@pytest.mark.parametrize(("text", "read"), [("go1.26.6 linux/amd64", (1, 26)), ("devel +abc", (0, 0)), ("", (0, 0))])
def test_a_go_version_is_read(text, read):
    assert release(text) == read


def test_an_unknown_program_is_refused_by_name():
    with pytest.raises(ClusterError, match="'kubeproxy' is none of the programs"):
        binaries.ensure("kubeproxy")
