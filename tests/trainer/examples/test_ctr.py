"""The click example, from a log in Criteo's format over Parquet on HDFS to a job with two parameter servers."""

import json
import os
import re
import signal

import pytest
import yaml

from e2e.stores.criteo import write_log
from tests.support.ports import free_ports
from tests.trainer.training import launch as launching

pytestmark = pytest.mark.trainer
EXAMPLES = launching.ROOT / "examples"


def test_clicks_are_learnt_from_parquet_on_hdfs_with_the_table_on_two_servers(hadoop, tmp_path):
    write_log(tmp_path / "log.txt")
    clicks = hadoop.uri("/clicks")
    converted = launching.run(
        "ctr.py", "--buckets=100", "convert", str(tmp_path / "log.txt"), f"web{clicks}", folder=EXAMPLES
    )
    assert converted.code == 0, converted.output

    job = yaml.safe_load((EXAMPLES / "ctr-parameter-server.yaml").read_text())["spec"]
    size = {role: spec["replicas"] for role, spec in job["replicaSpecs"].items()}
    assert size == {"chief": 1, "worker": 2, "ps": 2}
    strategy = job["strategy"]
    strategy["variablePartitioner"]["minShardBytes"] = 1024
    ports = iter(free_ports(sum(size.values())))
    cluster = {role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in size.items()}
    born = {
        (role, index): launching.start(
            "ctr.py",
            "--buckets=100",
            "train",
            clicks,
            "--epochs=4",
            "--batch=100",
            "--rate=0.2",
            environment={
                "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}}),
                "DTJ_STRATEGY": json.dumps(strategy),
            },
            folder=EXAMPLES,
        )
        for role, count in size.items()
        for index in range(count)
    }
    try:
        chief = launching.finish(born["chief", 0])
    finally:
        for (role, _), process in born.items():
            if role != "chief":
                os.kill(process.pid, signal.SIGKILL)
    assert chief.code == 0, chief.output[-4000:]
    told = re.search(r"^loss (\S+) after 80 steps; the table lies on ps 0, ps 1$", chief.output, re.MULTILINE)
    assert told, chief.output[-2000:]
    assert float(told[1]) < 0.4
