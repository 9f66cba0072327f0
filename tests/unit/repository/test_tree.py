"""Checks of the whole tree: forbidden content, and values that must agree across files."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCKERFILES = [ROOT / "operator" / "Dockerfile", ROOT / "trainer-image" / "Dockerfile"]
REGISTRIES = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "proxy.golang" + ".org",
    "npmjs" + ".org",
    "deb.debian" + ".org",
]


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("root", ["client", "operator", "trainer-image"])
def test_a_source_root_is_no_package_for_it_would_shadow_the_standard_library(root):
    assert not (ROOT / root / "__init__.py").exists()


def test_no_file_names_a_registry_host_or_a_path_of_this_machine():
    here = rf"(?<![\w/.-]){re.escape(str(ROOT.parent))}/" if len(ROOT.parent.parts) > 1 else None
    forbidden = re.compile("|".join([*map(re.escape, REGISTRIES), *([here] if here else [])]).encode())
    found = [
        (str(file.relative_to(ROOT)), match[0]) for file in tracked() for match in forbidden.finditer(file.read_bytes())
    ]
    assert found == []


def test_one_version_stands_everywhere():
    version = PROJECT["project"]["version"]
    chart = yaml.safe_load((ROOT / "charts" / "dtj-operator" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)
    for dockerfile in DOCKERFILES:
        assert f"\nARG VERSION={version}\n" in dockerfile.read_text()


def test_the_distribution_has_one_name_everywhere():
    name = PROJECT["project"]["name"]
    for dockerfile in DOCKERFILES:
        assert f"/{name.replace('-', '_')}-${{VERSION}}.dist-info" in dockerfile.read_text()
        assert rf"\nName: {name}\n" in dockerfile.read_text()
    assert f'version("{name}")' in (ROOT / "operator" / "dtj_operator" / "__init__.py").read_text()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.parent.name)
def test_images_are_hash_pinned_run_as_a_user_and_start_from_any_base(dockerfile):
    text = dockerfile.read_text()
    assert re.search(r"^ARG BASE=python:3\.11-\S+\nFROM \$\{BASE}$", text, re.MULTILINE)
    assert "--require-hashes" in text
    assert "USER 65532:65532" in text
    assert "--no-compile" not in text


def test_collecting_tests_imports_no_tensorflow():
    """Check that collecting tests does not import TensorFlow: each pytest process collects all of them."""
    early = re.compile(r"(?:import|from) (?:tensorflow|keras)\b")
    modules = [file for file in tracked() if re.fullmatch(r"(?:test_\w+|conftest)\.py", file.name)]
    lines = [(file.name, ast.unparse(line)) for file in modules for line in ast.parse(file.read_bytes()).body]
    assert [(name, line) for name, line in lines if early.match(line)] == []


def test_every_lint_rule_that_is_off_says_why():
    listed = (ROOT / "pyproject.toml").read_text().split("\nignore = [\n")[1].split("\n]\n")[0].splitlines()
    assert [line for line in listed if not re.fullmatch(r'  "[A-Z]+[0-9]*", +# \S.{3,}', line)] == []


def test_every_example_is_run_by_a_test_and_told_of():
    tests = "".join(file.read_text() for folder in ("tests", "e2e") for file in (ROOT / folder).rglob("*.py"))
    told = (ROOT / "examples" / "README.md").read_text()
    manifests = [file.name for file in (ROOT / "examples").glob("*.yaml")]
    assert [name for name in manifests if f'"{name}"' not in tests or f"`{name}`" not in told] == []


def test_ci_runs_the_test_command_of_the_readme():
    assert re.search(r"^make test\b", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert re.search(r"^exec make test$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)


def test_make_help_lists_every_target():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^  make (\S+)", said, re.MULTILINE)
    quick = ["check", "test", "unit", "matrix", "lint", "fmt", "generate", "docs"]
    slow = ["manifests", "images", "publish-images", "publish-chart", "publish-signatures"]
    slow += ["demo", "cluster", "cluster-down", "e2e", "e2e-kind", "faults", "corpus", "equality"]
    slow += ["bench", "bench-operator", "bench-trainer"]
    assert targets == ["help", *quick, *slow]


def test_the_wheel_has_all_packages_and_commands(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        (commands,) = [content.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    packages = {name.split("/")[0] for name in names if not name.startswith("dtj_training-")}
    assert packages == {"dtj", "dtj_operator", "dtj_trainer"}
    assert {"dtj/data.py", "dtj/py.typed", "dtj_trainer/py.typed"} <= set(names)
    assert "dtj-operator = dtj_operator.__main__:main" in commands
    assert {"dtj = dtj.cli:main", "dtj-run = dtj_trainer.run:main"} <= set(commands.splitlines())


@pytest.mark.parametrize(("module", "unwanted"), [
    ("dtj_operator.__main__", ("tensorflow", "keras", "numpy", "kubernetes", "dtj_trainer")),
    ("dtj_trainer.run", ("tensorflow", "keras", "numpy", "kopf", "dtj_operator")),
])  # fmt: skip
def test_a_command_starts_without_what_it_does_not_need(module, unwanted):
    program = f"import sys, {module} as m; assert callable(m.main); print(*set(sys.modules) & set({unwanted!r}))"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout.split()) == (0, []), said.stderr
