"""A real Prometheus on loopback, and what it answers."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from e2e.cluster import debian_programs
from e2e.cluster.wait import wait_until
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE: Final = 60.0
Samples = list[tuple[dict[str, str], list[tuple[float, float]]]]
"""Series: labels, and (time, value)."""


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    address: str
    began: float

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def history(self, expression: str) -> Samples:
        """Return what a query gives for each second since the start; without what is no number."""
        data = self.get("query_range", query=expression, start=f"{self.began}", end=f"{time.time()}", step="1")
        found = [
            (series["metric"], [(at, float(value)) for at, value in series["values"] if not math.isnan(float(value))])
            for series in data["result"]
        ]
        return [series for series in found if series[1]]

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now, with annotations that can be read."""
        found = [alert for alert in self.get("alerts")["alerts"] if alert["state"] == "firing"]
        return {alert["labels"]["alertname"] for alert in found if "<error" not in str(alert["annotations"])}


@contextmanager
def running(folder: Path, config: dict[str, Any], groups: list[dict[str, Any]]) -> Iterator[Prometheus]:
    """Run Prometheus with a configuration and groups of rules; its data and its log are in the folder."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config | {"rule_files": ["rules.yaml"]}))
    port, log = free_port(), folder / "prometheus.log"
    command = [
        *(
            str(debian_programs.ensure("prometheus", "prometheus") / "prometheus"),
            f"--web.listen-address=127.0.0.1:{port}",
        ),
        *(f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}", "--log.level=warn"),
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        found = Prometheus(f"http://127.0.0.1:{port}", time.time())

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"{found.address}/-/ready", timeout=1).close()
            except OSError:
                return False
            return True

        try:
            wait_until(ready, PATIENCE, log.read_text)
            yield found
        finally:
            process.terminate()
            process.wait(PATIENCE)
