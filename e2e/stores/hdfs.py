"""HDFS on loopback: one NameNode and one DataNode, ready to serve WebHDFS."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from e2e.cluster import machine
from e2e.cluster.api import wait_until
from e2e.cluster.interface import ClusterError
from e2e.cluster.machine import Machine
from e2e.cluster.plane import free_port
from e2e.stores import hadoop
from e2e.stores.hadoop import Hadoop

READY_LIMIT = 120.0
JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts in half the time
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # WebHDFS's Jersey defines classes there
)
SERVER = "org.apache.hadoop.hdfs.server"
LOGGING = """\
log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%p %c{1}: %m%n
"""


@dataclass(frozen=True)
class Hdfs:
    """A running file system; `http` is the NameNode's port for WebHDFS."""

    http: int

    def uri(self, path: str) -> str:
        """The hdfs:// URI of an absolute path."""
        return f"hdfs://127.0.0.1:{self.http}{path}"


@contextmanager
def hdfs() -> Iterator[Hdfs]:
    """A new and empty HDFS on free loopback ports. It ends with this process, however that dies."""
    programs = hadoop.ensure()
    with ExitStack() as stack:
        host = Machine("hdfs", Path(tempfile.mkdtemp(prefix="dtj-hdfs-", dir="/tmp")))
        stack.callback(machine.end, machine.plain(host))
        http = _configure(host.directory)
        _format(programs, host.directory)
        host.start("namenode", *_command(programs, host.directory, "namenode.NameNode"))
        host.start("datanode", *_command(programs, host.directory, "datanode.DataNode"))
        _wait_ready(host, http)
        yield Hdfs(http)


def _format(programs: Hadoop, home: Path) -> None:
    command = _command(programs, home, "namenode.NameNode", "-format", "-nonInteractive")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=READY_LIMIT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"The NameNode could not make a new file system in {home} ({last}).")


def _command(programs: Hadoop, home: Path, name: str, *arguments: str) -> list[str]:
    classes = f"{home}/conf:{programs.jars}/*"
    return [str(programs.java), *JVM, f"-Dhadoop.home.dir={home}", "-cp", classes, f"{SERVER}.{name}", *arguments]


def _configure(home: Path) -> int:
    """Write Hadoop's configuration; the port of WebHDFS."""
    conf = home / "conf"
    for server in ("hdfs", "datanode"):  # resources that the jars leave to the distribution: pages for people
        (conf / "webapps" / server).mkdir(parents=True)
    (conf / "log4j.properties").write_text(LOGGING)
    http = free_port()
    _write(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://127.0.0.1:{free_port()}"})
    nowhere = "127.0.0.1:0"
    _write(conf / "hdfs-site.xml", {
        "dfs.namenode.name.dir": f"{home}/name",
        "dfs.namenode.http-address": f"127.0.0.1:{http}",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": f"{home}/data",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.datanode.address": nowhere,
        "dfs.datanode.ipc.address": nowhere,
        "dfs.datanode.http.address": nowhere,
        "dfs.datanode.du.reserved": "0",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
    })  # fmt: skip
    return http


def _write(file: Path, properties: Mapping[str, str]) -> None:
    root = ET.Element("configuration")
    for name, value in properties.items():
        entry = ET.SubElement(root, "property")
        ET.SubElement(entry, "name").text = name
        ET.SubElement(entry, "value").text = value
    ET.ElementTree(root).write(file)


def _wait_ready(host: Machine, http: int) -> None:
    """Until the NameNode knows its DataNode and has left safe mode."""
    question = f"http://127.0.0.1:{http}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"

    def ready() -> bool:
        host.demand_running()
        try:
            with urllib.request.urlopen(question, timeout=5) as answer:
                (state,) = json.load(answer)["beans"] or [{}]
        except OSError:
            return False
        return bool(state) and state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational"

    log = host.log("datanode")
    wait_until(
        ready, READY_LIMIT, lambda: f"HDFS is not ready after {READY_LIMIT:.0f} s: {machine.last_words(log)}", 0.1
    )
