"""The pins: hashed, free of addresses, inside the ranges of pyproject.toml, and the same in every file."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dtj_trainer.cluster.environment import DISTRIBUTIONS

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*])?==(\S+)", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_pin_carries_a_hash_and_nothing_else_stands_in_the_file(file):
    logical_lines = file.read_text().replace("\\\n", " ").splitlines()
    for line in logical_lines:
        assert re.fullmatch(r"\S+==[^\s;]+( ; [^#]*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*", line), line[:80]


@pytest.mark.parametrize("file", [*FILES, *(ROOT / "requirements").glob("*.in")], ids=lambda file: file.name)
def test_no_requirement_names_a_place_to_fetch_from(file):
    assert not re.search(r"https?:|--index|--extra-index|--find-links|--trusted-host", file.read_text())


def test_a_package_has_one_version_in_every_file():
    everywhere = [pins(file) for file in FILES]
    names = {name for found in everywhere for name in found}
    versions = {name: {found[name] for found in everywhere if name in found} for name in names}
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("file", "extra"), [
    ("client", "client"), ("operator", "operator"), ("trainer-gpu", "trainer"), ("trainer-tpu", "trainer_tpu"),
    ("tf-keras", "tf_keras"), ("dev", "dev"),
])  # fmt: skip
def test_the_pins_are_inside_the_ranges_of_the_extra(file, extra):
    pinned = pins(ROOT / "requirements" / f"{file}.txt")
    for wanted in map(Requirement, EXTRAS[extra]):
        if wanted.name != "dtj-training":
            assert wanted.name in pinned
            assert wanted.specifier.contains(pinned[wanted.name]), wanted


def test_the_operator_image_has_no_tensorflow_and_no_kubernetes_client():
    assert not {"tensorflow", "tensorflow-cpu", "keras", "numpy", "kubernetes"} & set(
        pins(ROOT / "requirements" / "operator.txt")
    )


def test_each_line_of_the_trainer_image_is_named_in_its_dockerfile_and_has_what_that_expects():
    dockerfile = (ROOT / "trainer-image" / "Dockerfile").read_text()
    lines = {file.name: pins(file) for file in FILES if file.name.startswith("trainer")}
    assert set(re.findall(r"REQUIREMENTS=(\S+?\.txt)", dockerfile)) == set(lines)
    for name, pinned in lines.items():
        assert "libclang" in pinned, name
        assert len(pinned.keys() & set(DISTRIBUTIONS)) == 1, name


def test_building_the_trainer_image_never_looks_for_a_tpu():
    """An import of tensorflow-tpu that may load libtpu waits for a metadata server, for minutes."""
    dockerfile = (ROOT / "trainer-image" / "Dockerfile").read_text()
    imports = re.findall(r"^.*python .*-m dtj_trainer\..*$", dockerfile, re.MULTILINE)
    assert imports
    assert all("TPU_LOAD_LIBRARY=0 " in line for line in imports)


def test_the_trainer_image_has_no_kopf_no_scikit_learn_and_no_tensorboard():
    assert not {"kopf", "aiohttp", "scikit-learn", "tensorboard"} & set(pins(ROOT / "requirements" / "trainer.txt"))
