"""Runs a manifest of examples/ on this machine: the operator's own pods, as processes on loopback."""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import yaml

from dtj_operator.api.enums import Role
from dtj_operator.api.job import Job
from dtj_operator.builders.main_container import main_container, tensorflow_port
from dtj_operator.builders.metadata import pod_address
from dtj_operator.builders.pod import build_pod
from dtj_trainer.supervisor.settings import Settings, parse, variable
from tests.support.ports import free_ports
from tests.trainer.training import launch
from tests.trainer.training.launch import Ended, ForkedProgram

EXAMPLES = launch.ROOT / "examples"


@dataclass(frozen=True)
class Slot:
    """One pod of the job: what its main container is given, with addresses on this machine."""

    name: str
    role: Role
    http: int
    arguments: Sequence[str]
    environment: Mapping[str, str]


def slots(name: str) -> list[Slot]:
    """What the operator makes of a manifest."""
    raw = yaml.safe_load((EXAMPLES / name).read_text())
    job = Job.parse({**raw, "metadata": {**raw["metadata"], "namespace": "here", "uid": "u1"}})
    places = [(role, index) for role, replica in job.spec.replica_specs.items() for index in range(replica.replicas)]
    ports = free_ports(2 * len(places))
    http, made = ports[len(places) :], []
    for (role, index), own in zip(places, http, strict=True):
        pod = build_pod(job, role, index, 0)
        container = main_container(job.spec, pod)
        given = {entry["name"]: entry["value"] for entry in container["env"]}
        for place, here in zip(places, ports, strict=False):
            theirs = pod_address(job.name, job.namespace, "", *place, tensorflow_port(container))
            given = {key: value.replace(theirs, f"127.0.0.1:{here}") for key, value in given.items()}
        peers = {f"127.0.0.1:{here}": there for here, there in zip(ports, http, strict=False)}
        environment = {
            **given,
            "DTJ_PEER_PORTS": json.dumps(peers),
            "DTJ_HEARTBEAT_SECONDS": "30",  # a busy machine is no lost peer
        }
        made.append(Slot(pod["metadata"]["name"], role, own, container["args"], environment))
    return made


def checkpoints(slot: Slot, state: Path) -> dict[str, str]:
    """The job's checkpoint settings, in a directory of this machine."""
    return {"DTJ_CHECKPOINT": json.dumps({**json.loads(slot.environment["DTJ_CHECKPOINT"]), "directory": str(state)})}


def start(slot: Slot, state: Path, *arguments: str) -> ForkedProgram:
    """The pod's program without `dtj-run`, whose flags become variables; `arguments` come last."""
    invocation = parse(slot.arguments, {})
    assert invocation.program is not None
    given = {field.name: getattr(invocation.settings, field.name) for field in fields(Settings)}
    flags = {variable(name): str(value) for name, value in given.items() if value != getattr(Settings(), name)}
    return launch.start(
        invocation.program.name,
        *invocation.program.arguments,
        *arguments,
        environment={**slot.environment, **flags, **checkpoints(slot, state)},
        folder=launch.ROOT,
    )


def run(name: str, state: Path, *arguments: str) -> dict[str, Ended]:
    """Run a job until every pod has ended that does not serve; those are stopped, as the operator would."""
    made = slots(name)
    serving = {Role.WORKER, Role.PS} if any(slot.role is Role.PS for slot in made) else set()
    born = {slot.name: start(slot, state, *arguments) for slot in made}
    ended = {slot.name: launch.finish(born[slot.name]) for slot in made if slot.role not in serving}
    for slot in made:
        if slot.role in serving:
            os.kill(born[slot.name].pid, signal.SIGKILL)
    return ended
