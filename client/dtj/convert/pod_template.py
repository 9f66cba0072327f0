"""Pod templates: nearly all stays, and what the operator sets is left out."""

from __future__ import annotations

from typing import Any

from dtj.convert.conversion import Conversion, string_map
from dtj.convert.fields import Fields, one_line, shown

MAIN = "tensorflow"
PORT = "tf"
DEFAULT_PORT = 2222
LEFT_OUT = {
    "restartPolicy": "replicaSpecs has that of the role",
    "hostname": "a pod's is its name",
    "subdomain": "a pod's is the name of its job",
}
"""Fields of a pod that the operator sets."""


def convert_template(
    conversion: Conversion, given: Fields, port_name: str = "", port_number: int = DEFAULT_PORT
) -> dict[str, Any]:
    """Return a template whose main container is ready for the operator. Raises ConversionError.

    The port of TensorFlow is the one called `port_name`, or else the one with `port_number`. The operator itself
    declares the default port where it is missing.
    """
    metadata, spec = given.object_at("metadata"), given.object_at("spec")
    given.name_rest()
    for name, instead in LEFT_OUT.items():
        spec.leave_out(name, instead)
    if scheduler := spec.string("schedulerName"):
        conversion.note(
            f"{spec.at('schedulerName')}{shown(scheduler)} is kept: it places each pod by itself, not in gangs."
        )
    containers = spec.objects_at("containers")
    if not containers:
        raise spec.error("containers", "has no container: add one")
    spec.objects_at("volumes")
    for container in containers:
        for name in ("env", "ports", "volumeMounts"):
            container.objects_at(name)
    names = [container.string("name") for container in containers]
    for container, name in zip(containers, names, strict=True):
        if not name:
            raise container.error("name", "is missing: give the container one")
    position = names.index(MAIN) if MAIN in names else 0
    if MAIN not in names:
        first = one_line(names[0])
        conversion.note(
            f"{spec.at('containers')} has none called {MAIN}: the first, {first}, trains and gets TF_CONFIG."
        )
    converted = [container.kept() for container in containers]
    _set_port(conversion, containers[position], converted[position], port_name, port_number)
    _leave_out_tf_config(conversion, containers[position], converted[position])
    pod = {name: value for name, value in spec.kept().items() if name not in LEFT_OUT}
    kept = _metadata(metadata)
    return ({"metadata": kept} if kept else {}) | {"spec": {**pod, "containers": converted}}


def main_container(template: dict[str, Any]) -> dict[str, Any]:
    """Return the main container of a converted template."""
    containers: list[dict[str, Any]] = template["spec"]["containers"]
    return next((one for one in containers if one["name"] == MAIN), containers[0])


def _metadata(given: Fields) -> dict[str, Any]:
    """Return what a pod gets of the metadata of its template; tells what else there is."""
    kept = {
        "labels": string_map(given.object_at("labels")),
        "annotations": string_map(given.object_at("annotations")),
        "finalizers": given.strings("finalizers"),
    }
    given.leave_out("name", "pods are called JOB-ROLE-INDEX")
    given.name_rest()
    return {name: value for name, value in kept.items() if value}


def _set_port(
    conversion: Conversion, given: Fields, container: dict[str, Any], port_name: str, port_number: int
) -> None:
    """Call the port of TensorFlow as the operator does."""
    ports = given.objects_at("ports")
    names = [port.string("name") for port in ports]
    numbers = [port.integer("containerPort") for port in ports]
    found: int | None = None
    if port_name and port_name in names:
        found = names.index(port_name)
    elif port_number != DEFAULT_PORT and port_number in numbers:
        found = numbers.index(port_number)
    ours = names.index(PORT) if PORT in names else found
    if ours is not None and ours != found and (found is not None or numbers[ours] != port_number):
        raise ports[ours].error(
            "name", f"is {PORT}, which is the name of TensorFlow's port, and that is another one: rename it"
        )
    if found is not None and names[found] != PORT:
        container["ports"] = [
            port.kept() | ({"name": PORT} if number == found else {}) for number, port in enumerate(ports)
        ]
        if names[found]:
            conversion.note(
                f"{ports[found].at('name')}{shown(names[found])} becomes {PORT}, in probes too: change a Service that "
                "names it."
            )
            for probe in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
                if probe in container:
                    container[probe] = _with_port_renamed(container[probe], names[found])
    if found is None and port_number != DEFAULT_PORT:
        container["ports"] = [*(port.kept() for port in ports), {"name": PORT, "containerPort": port_number}]


def _with_port_renamed(value: Any, name: str) -> Any:
    """Return a probe or a hook that asks at the port by its new name."""
    if isinstance(value, dict):
        return {
            key: PORT if key == "port" and held == name else _with_port_renamed(held, name)
            for key, held in value.items()
        }
    return [_with_port_renamed(one, name) for one in value] if isinstance(value, list) else value


def _leave_out_tf_config(conversion: Conversion, given: Fields, container: dict[str, Any]) -> None:
    for entry in given.objects_at("env"):
        if entry.string("name") == "TF_CONFIG":
            conversion.note(f"{entry.path} (TF_CONFIG) is left out: the operator sets it.")
            container["env"] = [one for one in container["env"] if one.get("name") != "TF_CONFIG"]
