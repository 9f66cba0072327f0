"""What a program finds in TensorFlow, though most of it is loaded only when a program looks for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.trainer
PROGRAM = Path(__file__).parent / "programs" / "public_names.py"


def public_names(*arguments: str) -> dict[str, str]:
    done = subprocess.run([sys.executable, str(PROGRAM), *arguments], capture_output=True, text=True, check=True)
    names: dict[str, str] = json.loads(done.stdout)
    return names


def test_a_program_in_a_pod_finds_all_of_tensorflow():
    plain, preloaded = public_names(), public_names("preloaded")
    assert len(plain) > 2_500
    assert preloaded == plain
