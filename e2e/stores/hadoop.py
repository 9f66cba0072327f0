"""Hadoop's jars, fetched by Maven and cached.

After a change of pom.xml, `python -m e2e.stores.hadoop` pins them again.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import locks, packages, paths
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase

POM = Path(__file__).with_name("hadoop") / "pom.xml"
PINS = POM.with_name("jars.sha256")
"""As `sha256sum` writes and checks it."""
JAVA = range(17, 22)
"""Versions that Hadoop 3.4 runs on; Java 24 removed the API that its user names need (JEP 486)."""
DEBIAN_PACKAGE = {"java": f"openjdk-{JAVA.start}-jre-headless", "mvn": "maven"}


@dataclass(frozen=True)
class Hadoop:
    """A directory with the jars, and the command that runs them."""

    java: Path
    jars: Path


def ensure() -> Hadoop:
    """Return Hadoop, fetched now where it is missing.

    Raises ClusterError where there is no Java, Maven fails, or a jar is not the pinned one.
    """
    java = _java()
    key = hashlib.sha256(POM.read_bytes() + PINS.read_bytes()).hexdigest()[:16]
    home = paths.cache() / "hadoop" / key
    if not home.exists():
        with locks.held(home.with_suffix(".lock"), "another run to fetch Hadoop"):
            if not home.exists():
                paths.require_space({home: 0.2}, "Fetching Hadoop")
                fresh = home.with_suffix(".new")
                fetch(fresh)
                check(fresh, PINS.read_text())
                fresh.rename(home)
    return Hadoop(java, home)


def fetch(target: Path) -> None:
    """Fetch every jar of pom.xml's dependencies into an empty directory."""
    shutil.rmtree(target, ignore_errors=True)
    maven = _program("mvn")
    with phase("fetch Hadoop's jars"):
        command = [str(maven), "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={target}"], capture_output=True, text=True, check=False, cwd="/"
        )
    if done.returncode:
        lines = done.stdout.splitlines()
        said = next((line.removeprefix("[ERROR] ") for line in lines if line.startswith("[ERROR] ")), "no reason given")
        raise ClusterError(
            f"Maven could not fetch Hadoop ({said[:300]}): if it could not download, "
            f"name a mirror that this machine reaches in Maven's settings.xml; {POM} lists the artifacts."
        )


def check(jars: Path, pins: str) -> None:
    """Raise ClusterError unless the directory holds the pinned jars and nothing else."""
    found, wanted = set(listing(jars).splitlines()), set(pins.splitlines())
    if found != wanted:
        name = min(found ^ wanted).split()[-1]
        raise ClusterError(f"{name} is not as pinned in {PINS}: delete Maven's copy of it, and try again.")


def listing(jars: Path) -> str:
    """Return one line for each jar: its SHA-256 and its name."""
    files = sorted(jars.iterdir())
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def _java() -> Path:
    """Return the machine's own Java where Hadoop runs with it, else Debian's."""
    for attempt in ("look", "look again"):
        for java in (shutil.which("java"), *sorted(map(str, Path("/usr/lib/jvm").glob("java-*-openjdk-*/bin/java")))):
            if java and Path(java).exists() and _version(java) in JAVA:
                return Path(java)
        if attempt == "look":
            packages.install([DEBIAN_PACKAGE["java"]], "HDFS")
    raise ClusterError(
        f"Hadoop needs Java {JAVA.start} to {JAVA.stop - 1} and this machine has none: install the package "
        f"{DEBIAN_PACKAGE['java']} (its name in Debian), then try again."
    )


def _version(java: str) -> int:
    return version(subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr)


def version(said: str) -> int:
    """Return the version that `java -version` reports; 0 where it cannot be parsed."""
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def _program(name: str) -> Path:
    if not shutil.which(name):
        packages.install([DEBIAN_PACKAGE[name]], "HDFS")
    found = shutil.which(name)
    if not found:
        raise ClusterError(
            f"{name} is missing: install the package {DEBIAN_PACKAGE[name]} (its name in Debian), then try again."
        )
    return Path(found)


def main() -> None:
    """Fetch what pom.xml asks for, and pin it."""
    target = paths.cache() / "hadoop" / "unpinned"
    fetch(target)
    PINS.write_text(listing(target))
    shutil.rmtree(target)


if __name__ == "__main__":
    main()
