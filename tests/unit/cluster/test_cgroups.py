"""Control groups of nodes, on file trees like those of cgroup v1, v2 and hybrid hosts."""

import pytest

from e2e.cluster import cgroups
from e2e.cluster.interface import ClusterError


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def version_1(root):
    for controller in (*cgroups.NEEDED, "freezer"):
        (root / controller).mkdir()
        (root / controller / "cgroup.procs").touch()
    (root / "cpuset" / "cpuset.cpus").write_text("0-1")
    (root / "cpuset" / "cpuset.mems").write_text("0")
    return root


@pytest.fixture
def version_2(root):
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    (root / "cgroup.subtree_control").write_text("memory pids")
    (root / "cgroup.procs").touch()
    return root


def test_on_v1_a_group_is_made_in_every_controller_and_may_use_the_same_cores(version_1):
    cgroups.make("dtj-x-node-1")
    assert (version_1 / "freezer" / "dtj-x-node-1").is_dir()
    assert (version_1 / "cpuset" / "dtj-x-node-1" / "cpuset.cpus").read_text() == "0-1"
    assert (version_1 / "cpuset" / "dtj-x-node-1" / "cpuset.mems").read_text() == "0"


def test_on_v1_a_missing_controller_is_named(version_1):
    (version_1 / "pids" / "cgroup.procs").unlink()
    (version_1 / "pids").rmdir()
    with pytest.raises(ClusterError, match="controllers pids are not mounted"):
        cgroups.make("dtj-x-node-1")


def test_on_v2_what_the_kubelet_needs_is_turned_on_below_the_root(version_2):
    cgroups.make("dtj-x-node-1")
    assert (version_2 / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
    assert (version_2 / "dtj-x-node-1").is_dir()


def test_on_v2_nothing_is_turned_on_twice(version_2):
    (version_2 / "cgroup.subtree_control").write_text("cpuset cpu memory pids")
    cgroups.make("dtj-x-node-1")
    assert (version_2 / "cgroup.subtree_control").read_text() == "cpuset cpu memory pids"


def test_groups_of_one_cluster_go_with_all_below_them_and_others_stay(version_1):
    (version_1 / "unified").mkdir()
    for place in ("memory", "unified"):
        (version_1 / place / "dtj-x-node-1" / "kubepods" / "pod1").mkdir(parents=True)
    (version_1 / "memory" / "dtj-other-node-1").mkdir()
    cgroups.remove("dtj-x-")
    assert list(version_1.glob("*/dtj-*")) == [version_1 / "memory" / "dtj-other-node-1"]


def test_a_place_where_no_group_can_be_made_is_refused_with_a_way_out(root):
    (root / "cgroup.controllers").write_text("")
    (root / "cgroup.subtree_control").write_text("")
    (root / "dtj-x-node-1").write_text("in the way")
    with pytest.raises(ClusterError, match="use --provider kind"):
        cgroups.make("dtj-x-node-1")
