"""Only the pinned jars of Hadoop are accepted."""

import pytest

from e2e.cluster.interface import ClusterError
from e2e.stores import hadoop


def test_jars_are_run_only_if_all_of_them_are_the_pinned_ones(tmp_path):
    for name in ("a.jar", "b.jar"):
        (tmp_path / name).write_bytes(name.encode())
    pins = hadoop.listing(tmp_path)
    hadoop.check(tmp_path, pins)
    (tmp_path / "b.jar").write_bytes(b"another")
    with pytest.raises(ClusterError, match=r"b\.jar is not as pinned"):
        hadoop.check(tmp_path, pins)
    (tmp_path / "b.jar").unlink()
    with pytest.raises(ClusterError, match=r"b\.jar is not as pinned"):
        hadoop.check(tmp_path, pins)


@pytest.mark.parametrize(
    ("said", "found"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "1.8.0_301"', 1), ("no such file", 0)],
)
def test_the_version_of_java_is_read_from_its_own_words(said, found):
    assert hadoop.version(said) == found
