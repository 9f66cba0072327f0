"""HDFS on loopback or where a cluster's pods reach it: one NameNode and one DataNode, ready to serve WebHDFS."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from e2e.cluster import machine
from e2e.cluster.control_plane import free_port
from e2e.cluster.interface import ClusterError, ServerPlace
from e2e.cluster.machine import Machine
from e2e.cluster.wait import wait_until
from e2e.stores import hadoop
from e2e.stores.hadoop import Hadoop

READY_LIMIT = 120.0
WEBHDFS_PORT = 9870
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


PROBE = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=5).read().decode())"


@dataclass(frozen=True)
class Hdfs:
    """The address of a file system.

    `http` is the NameNode's port for WebHDFS; `enter` is a command that runs another one in its servers' network.
    """

    address: str
    http: int
    enter: tuple[str, ...] = ()

    def uri(self, path: str) -> str:
        """The hdfs:// URI of an absolute path."""
        return f"hdfs://{self.address}:{self.http}{path}"


def on_loopback() -> Hdfs:
    """Return an HDFS on loopback, at a free port."""
    return Hdfs("127.0.0.1", free_port())


def beside(place: ServerPlace) -> Hdfs:
    """Return an HDFS that a cluster's pods reach, at WebHDFS' usual port."""
    return Hdfs(place.address, WEBHDFS_PORT, place.enter)


@contextmanager
def hdfs(place: Hdfs) -> Iterator[Hdfs]:
    """Start a new and empty HDFS there. It ends with this process, however that dies."""
    programs = hadoop.ensure()
    with ExitStack() as stack:
        host = Machine("hdfs", Path(tempfile.mkdtemp(prefix="dtj-hdfs-", dir="/tmp")))
        stack.callback(machine.end, machine.start_plain(host))
        _configure(host.directory, place)
        _format(programs, host.directory)
        host.start("namenode", *place.enter, *_command(programs, host.directory, "namenode.NameNode"))
        host.start("datanode", *place.enter, *_command(programs, host.directory, "datanode.DataNode"))
        _wait_ready(host, place)
        yield place


def _format(programs: Hadoop, home: Path) -> None:
    command = _command(programs, home, "namenode.NameNode", "-format", "-nonInteractive")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=READY_LIMIT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ClusterError(f"The NameNode could not make a new file system in {home} ({last}).")


def _command(programs: Hadoop, home: Path, name: str, *arguments: str) -> list[str]:
    classes = f"{home}/conf:{programs.jars}/*"
    return [str(programs.java), *JVM, f"-Dhadoop.home.dir={home}", "-cp", classes, f"{SERVER}.{name}", *arguments]


def _configure(home: Path, place: Hdfs) -> None:
    """Write Hadoop's configuration."""
    conf = home / "conf"
    for server in ("hdfs", "datanode"):  # resources that the jars leave to the distribution: pages for people
        (conf / "webapps" / server).mkdir(parents=True)
    (conf / "log4j.properties").write_text(LOGGING)
    _write(conf / "core-site.xml", {"fs.defaultFS": f"hdfs://{place.address}:{free_port()}"})
    anywhere = f"{place.address}:0"
    _write(conf / "hdfs-site.xml", {
        "dfs.namenode.name.dir": f"{home}/name",
        "dfs.namenode.http-address": f"{place.address}:{place.http}",
        "dfs.namenode.safemode.extension": "0",
        "dfs.datanode.data.dir": f"{home}/data",
        "dfs.datanode.hostname": place.address,
        "dfs.client.use.datanode.hostname": "true",  # the address it calls from may be another of this machine's
        "dfs.datanode.address": anywhere,
        "dfs.datanode.ipc.address": anywhere,
        "dfs.datanode.http.address": anywhere,
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",  # the cluster's addresses have no names
        "dfs.datanode.du.reserved": "0",
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
    })  # fmt: skip


def _write(file: Path, properties: Mapping[str, str]) -> None:
    root = ET.Element("configuration")
    for name, value in properties.items():
        entry = ET.SubElement(root, "property")
        ET.SubElement(entry, "name").text = name
        ET.SubElement(entry, "value").text = value
    ET.ElementTree(root).write(file)


def _wait_ready(host: Machine, place: Hdfs) -> None:
    """Wait until the NameNode knows its DataNode and has left safe mode."""
    question = f"http://{place.address}:{place.http}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    ask = [*place.enter, sys.executable, "-I", "-S", "-c", PROBE, question]

    def ready() -> bool:
        host.require_running()
        answer = subprocess.run(ask, capture_output=True, check=False)
        if answer.returncode:
            return False
        (state,) = json.loads(answer.stdout)["beans"] or [{}]
        return bool(state) and state["NumLiveDataNodes"] == 1 and state["FSState"] == "Operational"

    log = host.log("datanode")
    wait_until(
        ready, READY_LIMIT, lambda: f"HDFS is not ready after {READY_LIMIT:.0f} s: {machine.last_log_line(log)}", 0.1
    )
