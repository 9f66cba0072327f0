"""The cache of unpacked images: filled once, linked into each node."""

from pathlib import Path

import pytest

from e2e.cluster import unpacked_images
from e2e.cluster.network import NodeAddress
from e2e.cluster.node import NodeHost


def node(directory: Path) -> NodeHost:
    address = object.__new__(NodeAddress)  # where it stands on the network is of no interest here
    return NodeHost("node-1", address, directory, "", directory, "overlayfs", may_lower_oom_score=False)


def test_a_node_gives_its_images_to_the_next_through_a_cache_that_is_empty_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    first, second = node(tmp_path / "first"), node(tmp_path / "second")
    (first.images / "content").mkdir(parents=True)
    (first.images / "content" / "blob").write_text("layer")
    (first.images / "meta").mkdir()
    (first.images / "meta" / "index.db").write_text("index")
    (first.directory / "loaded").mkdir()
    (first.directory / "loaded" / "trainer").touch()
    second.directory.mkdir()
    place = unpacked_images.cache_path({}, "overlayfs")
    unpacked_images.save(first, place)
    unpacked_images.restore(place, second)
    (second.images / "meta" / "index.db").write_text("changed")
    assert (second.images / "content" / "blob").read_text() == "layer"
    assert (first.images / "meta" / "index.db").read_text() == "index"
    assert (second.directory / "loaded" / "trainer").exists()
