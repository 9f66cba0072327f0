"""What the trainer reads of its container's cgroup."""

from pathlib import Path

from dtj_trainer.cluster.cgroup import Cgroup


def test_out_of_memory_kills_are_counted_in_both_versions(tmp_path: Path):
    membership = tmp_path / "membership"
    membership.write_text("4:memory:/pod\n0::/\n")
    (tmp_path / "memory" / "pod").mkdir(parents=True)
    (tmp_path / "memory" / "pod" / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
    assert Cgroup(tmp_path, membership).oom_kills() == 3
    membership.write_text("0::/\n")
    two = tmp_path / "two"
    two.mkdir()
    (two / "memory.events").write_text("oom 2\noom_kill 2\n")
    (two / "cpu.max").write_text("50000 100000\n")
    assert Cgroup(two, membership).oom_kills() == 2
    assert Cgroup(two, membership).cpus() == 1


def test_free_memory_counts_the_files_that_the_kernel_can_drop(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    for name, value in (("memory.max", "1000000"), ("memory.current", "900000")):
        (tmp_path / name).write_text(f"{value}\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 300000\n")
    assert Cgroup(tmp_path, membership).free_bytes() == 400000


def test_whether_the_kernel_kills_all_of_a_container_together(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    assert not Cgroup(tmp_path, membership).kills_all_together()
    for value, together in (("0", False), ("1", True)):
        (tmp_path / "memory.oom.group").write_text(f"{value}\n")
        assert Cgroup(tmp_path, membership).kills_all_together() is together


def test_where_no_limit_is_set_what_the_machine_has_left_is_free(tmp_path: Path):
    membership = tmp_path / "cgroup"
    membership.write_text("0::/\n")
    (tmp_path / "memory.max").write_text("max\n")
    free = Cgroup(tmp_path, membership).free_bytes()
    assert free is not None
    assert free > 0
