"""Image archives that are written without a builder."""

import hashlib
import json
import tarfile
from pathlib import Path

from e2e.cluster.kind import image_archive
from e2e.cluster.kind.image_archive import LayeredImage


def test_images_share_their_layers_and_name_them_by_digest(tmp_path: Path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    base = image_archive.pack_files({"/bin/sh": program}, tmp_path / "base.tar")
    own = image_archive.pack_files({"/usr/bin/own": program}, tmp_path / "own.tar")
    config = {"Entrypoint": ["/usr/bin/own"]}
    images = [LayeredImage("localhost/base:1", (base,)), LayeredImage("localhost/own:1", (base, own), config)]
    image_archive.write(tmp_path / "images.tar", images)

    digests = [hashlib.sha256(layer.read_bytes()).hexdigest() for layer in (base, own)]
    with tarfile.open(tmp_path / "images.tar") as archive:
        assert sorted(name for name in archive.getnames() if name.endswith(".tar")) == sorted(
            f"{d}.tar" for d in digests
        )
        manifest = json.load(archive.extractfile("manifest.json") or tmp_path.open())
        assert [entry["RepoTags"] for entry in manifest] == [["localhost/base:1"], ["localhost/own:1"]]
        assert [entry["Layers"] for entry in manifest] == [
            [f"{digests[0]}.tar"],
            [f"{digest}.tar" for digest in digests],
        ]
        settings = json.load(archive.extractfile(manifest[1]["Config"]) or tmp_path.open())
    assert settings["config"] == config
    assert settings["rootfs"]["diff_ids"] == [f"sha256:{digest}" for digest in digests]
    with tarfile.open(own) as layer:
        entry = layer.getmember("usr/bin/own")
        assert (entry.mode, entry.uid, entry.size) == (0o755, 0, len("#!/bin/sh\n"))
