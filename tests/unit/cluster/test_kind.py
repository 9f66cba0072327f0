"""The provider kind, with fake docker, kind and kubectl commands that keep a list of clusters in a file."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster import __main__ as command
from e2e.cluster import binaries, kind, parallel_build
from e2e.cluster.images import Images
from e2e.cluster.interface import ClusterError
from e2e.demo import __main__ as demo

KIND = """#!/bin/sh
clusters={home}/clusters
case "$1 $2" in
  "get clusters") cat $clusters;;
  "create cluster") echo "$4" >> $clusters; touch {home}/creating; exec sleep "$(cat {home}/seconds)";;
  "delete cluster") grep -vx "$4" $clusters > $clusters.new; mv $clusters.new $clusters;;
esac
"""


def program(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o755)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fake commands' files, and the state of clusters below `state`."""
    tools = tmp_path / "bin"
    tools.mkdir()
    program(tools / "docker", "#!/bin/sh\n")
    program(tools / "kind", KIND.format(home=tmp_path))
    program(tools / "kubectl", f"#!/bin/sh\ncat {tmp_path}/nodes\n")
    (tmp_path / "clusters").touch()
    write_nodes(tmp_path, [], [])
    (tmp_path / "seconds").write_text("0")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("DTJ_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(binaries, "path", lambda name: tools / name)
    return tmp_path


def running(home: Path, *taints: list[str]) -> None:
    """Add the cluster dtj with a control plane and a node for each list of taints."""
    (home / "clusters").write_text("dtj\n")
    write_nodes(home, *taints)


def write_nodes(home: Path, *taints: list[str]) -> None:
    nodes = [{"metadata": {"name": f"n{at}"}, "spec": {"taints": keys}} for at, keys in enumerate(([""], *taints))]
    (home / "nodes").write_text(json.dumps({"items": nodes}))


def test_an_interrupted_creation_is_taken_away(home: Path):
    (home / "seconds").write_text("60")
    words = [sys.executable, "-m", "e2e.cluster", "--provider", "kind", "up"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as up:
        while not (home / "creating").exists():
            assert up.poll() is None
            time.sleep(0.02)
        up.terminate()  # a caller may have left us deaf to SIGINT
        _, said = up.communicate(timeout=30)
    assert (up.returncode, "has been taken away" in said) == (130, True)
    assert (home / "clusters").read_text() == ""
    assert not (home / "state" / "kind-dtj").exists()


def test_how_to_reach_it_is_told_of_a_cluster_that_is_made_and_of_one_that_is_there(
    home: Path, capsys: pytest.CaptureFixture[str]
):
    export = f"export KUBECONFIG={home}/state/kind-dtj/kubeconfig"
    kind.up()
    assert export in capsys.readouterr().err
    running(home, [], [])
    kind.up()
    assert export in capsys.readouterr().err


@pytest.mark.parametrize("taints", [[[]], [[], ["node.kubernetes.io/not-ready"]]])
def test_a_cluster_that_is_there_with_other_nodes_or_nodes_that_are_not_ready_is_refused(
    taints: list[list[str]], home: Path
):
    running(home, *taints)
    with pytest.raises(ClusterError, match=r"1 of its nodes take pods, and 2 were asked for: .*kind down --name dtj"):
        kind.up()
    assert (home / "clusters").read_text() == "dtj\n"


def test_a_cluster_that_is_there_and_does_not_answer_is_refused(home: Path):
    running(home, [], [])
    (home / "nodes").unlink()
    with pytest.raises(ClusterError, match=r"it does not answer \(.*kind down --name dtj"):
        kind.up()


@pytest.mark.parametrize("main", [
    lambda: command.main(["up", "--provider", "kind", "--images"]),
    lambda: demo.main(["--provider", "kind"]),
])  # fmt: skip
def test_docker_is_looked_for_before_anything_is_built(
    main, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(parallel_build, "build_images_beside", lambda *_: pytest.fail("images are built"))
    assert main() == 1
    assert "needs a running docker, and this machine has no apt-get" in " ".join(capsys.readouterr().err.split())


def test_of_the_programs_kind_needs_kubectl_alone(home: Path, monkeypatch: pytest.MonkeyPatch):
    built: list[str] = []

    def build_images_beside(*names: str) -> Images:
        built.extend(names)
        return Images("o:1", "t:1")

    monkeypatch.setattr(parallel_build, "build_images_beside", build_images_beside)
    assert command.main(["up", "--provider", "kind", "--images"]) == 0
    assert built == ["kubectl"]
