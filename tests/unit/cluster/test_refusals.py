"""What cannot be done is refused in one sentence that says what to do."""

import os
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from e2e.cluster import __main__, embedded, image_builders, images, kind, locks, paths, prerequisites, providers, record
from e2e.cluster.interface import ClusterError
from e2e.demo import __main__ as demo


def test_without_root_the_embedded_cluster_says_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "needs root" in prerequisites.unsupported_reason()
    with pytest.raises(ClusterError, match="run it with sudo, or use --provider kind"):
        prerequisites.require()


def test_each_missing_tool_is_named_with_its_package():
    assert "install the package iproute2" in prerequisites.sentence("ip")
    assert "bridge, host-local, loopback, portmap" in prerequisites.sentence("CNI plugins")


def test_a_full_disk_is_refused_with_path_needed_and_free(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**29))
    with pytest.raises(ClusterError, match=f"Building needs 3.0 GiB under {tmp_path} but 0.5 GiB are free"):
        paths.require_space({tmp_path / "a" / "b": 1.0, tmp_path / "c": 2.0}, "Building")


def test_enough_space_is_enough(tmp_path):
    paths.require_space({tmp_path: 0.000001}, "Building")


def test_a_relative_place_is_meant_from_where_the_command_was_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DTJ_CACHE", "mine/cache")
    monkeypatch.setenv("DTJ_STATE", "mine/state")
    assert (paths.cache(), paths.state_root()) == (tmp_path / "mine/cache", tmp_path / "mine/state")


@pytest.mark.parametrize("name", ["", "UPPER", "with-dash", "1st", "a" * 17, "../up"])
def test_a_name_that_cannot_name_namespaces_is_refused(name):
    with pytest.raises(ClusterError, match="cannot name a cluster"):
        record.directory(name)


def test_a_busy_port_is_refused_by_number():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"Port {port} of 127.0.0.1"), embedded.listening(port):
            pass


def test_a_port_that_there_is_not_is_refused_by_number(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["up", "--port", "99999"])
    assert "--port: 99999 is no port: choose 1 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("begin", [
    lambda place: locks.held(place / "a.lock", "nobody").__enter__(),
    image_builders._storage_driver,
    lambda place: record.require_own_root(),
])  # fmt: skip
def test_a_place_that_cannot_be_written_is_named(begin, monkeypatch):
    place = Path("/sys")  # where not even root makes a file
    monkeypatch.setenv("DTJ_STATE", str(place))
    with pytest.raises(ClusterError, match=f"{place} cannot be written .*DTJ_CACHE and DTJ_STATE"):
        begin(place)


def test_results_that_cannot_be_written_are_refused_before_the_demo_begins(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    results = tmp_path / "file" / "results"
    monkeypatch.setattr(demo, "RESULTS", results)
    monkeypatch.setattr(demo, "REPORT", results / "demo.json")
    monkeypatch.setattr(providers, "require", lambda _: pytest.fail("the demo began"))
    assert demo.main([]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{results} cannot be written (Not a directory): set DTJ_RESULTS" in said


def test_a_lock_held_too_long_is_refused_by_what_holds_it(tmp_path):
    lock = tmp_path / "lock"
    with (
        locks.held(lock, "nobody"),
        pytest.raises(ClusterError, match="Waited 0 s for another run"),
        locks.held(lock, "another run", limit=0.0),
    ):
        pass


def test_kind_without_docker_is_refused(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match="needs a running docker, and this machine has no apt-get"):
        kind.up()


def test_a_missing_kubeconfig_is_named(tmp_path):
    with pytest.raises(ClusterError, match=f"no kubeconfig at {tmp_path}/none"):
        providers.attach("existing", kubeconfig=tmp_path / "none")


def test_the_command_says_the_sentence_and_fails(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DTJ_STATE", str(tmp_path))
    monkeypatch.setattr(prerequisites, "require", lambda: prerequisites.Host(Path("/"), may_lower_oom_score=True))
    assert __main__.main(["--name", "none", "status"]) == 1
    assert "No cluster none runs on this machine" in capsys.readouterr().err


def test_down_of_a_cluster_that_never_was_is_fine(monkeypatch, tmp_path):
    monkeypatch.setenv("DTJ_STATE", str(tmp_path))
    assert __main__.main(["down", "--name", "never"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_what_down_cannot_remove_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DTJ_STATE", str(tmp_path))
    monkeypatch.setattr(prerequisites, "unsupported_reason", lambda: None)
    (tmp_path / "broken").touch()
    assert __main__.main(["down", "--name", "broken"]) == 1
    assert f"{tmp_path}/broken cannot be removed ({tmp_path}/broken: Not a directory)" in capsys.readouterr().err


def test_images_that_nodes_are_to_pull_have_names(monkeypatch, capsys):
    monkeypatch.delenv("DTJ_TRAINER_IMAGE", raising=False)
    assert demo.main(["--provider", "existing", "--operator-image", "team/dtj-operator:1"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "--trainer-image is missing" in said
    assert "DTJ_TRAINER_IMAGE" in said
    with pytest.raises(ClusterError, match="--operator-image host:5000/dtj-operator has no tag"):
        images.named("host:5000/dtj-operator", "team/dtj-trainer:1")


def test_images_are_not_built_for_a_cluster_that_they_cannot_be_loaded_into(capsys):
    assert __main__.main(["up", "--provider", "existing", "--images"]) == 1
    assert "--images loads them into a cluster on this machine" in capsys.readouterr().err
