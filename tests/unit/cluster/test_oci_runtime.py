"""What docker asks runc for, on a machine whose root lacks CAP_SYS_RESOURCE."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.kind import oci_runtime

CAPABILITIES = ["CAP_CHOWN", "CAP_SYS_RESOURCE", "CAP_SYS_ADMIN"]
PROCESS = {
    "args": ["sleep"],
    "capabilities": {"bounding": CAPABILITIES, "effective": CAPABILITIES},
    "oomScoreAdj": -500,
}
PERMITTED = {name: ["CAP_CHOWN", "CAP_SYS_ADMIN"] for name in ("bounding", "effective")}


@pytest.mark.parametrize(("words", "file", "content"), [
    (["--root", "/r", "create", "--bundle", "{}", "id"], "config.json", {"process": PROCESS}),
    (["create", "--bundle={}", "id"], "config.json", {"process": PROCESS}),
    (["run", "-b", "{}", "id"], "config.json", {"process": PROCESS}),
    (["exec", "--process", "{}/process.json", "id"], "process.json", PROCESS),
])  # fmt: skip
def test_runc_is_asked_for_nothing_that_the_kernel_refuses(
    words: list[str], file: str, content: dict[str, object], tmp_path: Path
):
    (tmp_path / file).write_text(json.dumps(content))
    arguments = [word.format(tmp_path) for word in words]
    command = [sys.executable, "-I", "-S", oci_runtime.__file__, "/bin/echo", *arguments]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == arguments
    written = json.loads((tmp_path / file).read_text())
    process = written.get("process", written)
    assert process == {"args": ["sleep"], "capabilities": PERMITTED}


@pytest.mark.parametrize("words", [["delete", "--force", "id"], ["state", "id"], ["exec", "id", "ls"]])
def test_other_commands_of_runc_are_passed_on(words: list[str]):
    assert oci_runtime.specification(words) is None
