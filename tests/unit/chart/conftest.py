from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries
from tests.support.chart import CHART


@pytest.fixture(scope="session")
def helm() -> Path:
    return binaries.path("helm")


@pytest.fixture
def render(helm: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that renders the chart, `a__b=value` for the value a.b; ValueError has helm's words."""

    def rendered(namespace: str = "dtj-system", release: str = "dtj-operator", **values: Any) -> list[dict[str, Any]]:
        flags = [
            flag
            for name, value in values.items()
            for flag in ("--set-json", f"{name.replace('__', '.')}={json.dumps(value)}")
        ]
        command = [str(helm), "template", release, str(CHART), "--namespace", namespace, "--skip-tests", *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]

    return rendered
