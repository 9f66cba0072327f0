"""What a conversion gives: a manifest, and a line for everything that is not as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAME_MAX = 40
ROLES = ("chief", "worker", "ps", "evaluator")


class ConversionError(Exception):
    """A job that cannot be converted; the message is a sentence that says what to do."""


@dataclass(slots=True)
class Conversion:
    """A DistributedTrainingJob in the making."""

    name: str
    """kind and name of the job that is converted, for people."""
    manifest: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    """What behaves differently, or was left out, each in one sentence."""

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the new job."""
        found: dict[str, Any] = self.manifest["spec"]
        return found

    def note(self, sentence: str) -> None:
        """Tell of a difference, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)


def begin(document: Mapping[str, Any]) -> Conversion:
    """Return an empty job with the name, labels and annotations of another. Raises ConversionError."""
    kind, given = document["kind"], document.get("metadata") or {}
    name = given.get("name") or ""
    if not name:
        raise ConversionError(f"a {kind} has no metadata.name: give it one")
    if len(name) > NAME_MAX:
        raise ConversionError(
            f"{kind} {name}: its name has {len(name)} characters, and those of a DistributedTrainingJob have at most "
            f"{NAME_MAX}, so that the names of its pods fit: choose a shorter one"
        )
    kept = {part: given[part] for part in ("name", "namespace", "labels", "annotations") if given.get(part)}
    manifest = {"apiVersion": "dtj.dev/v1alpha1", "kind": "DistributedTrainingJob", "metadata": kept, "spec": {}}
    conversion = Conversion(f"{kind} {name}", manifest)
    name_unknown(conversion, document, {"apiVersion", "kind", "metadata", "spec"}, "The field")
    name_unknown(conversion, given, {*kept, "creationTimestamp"}, "metadata")
    return conversion


def name_unknown(conversion: Conversion, given: Mapping[str, Any], known: set[str], path: str) -> None:
    """Tell of every field that has no counterpart here."""
    for field_name in given:
        if field_name not in known:
            place = f"{path} {field_name}" if path[0].isupper() else f"{path}.{field_name}"
            conversion.note(f"{place} has no counterpart and is left out.")


def convert_template(
    conversion: Conversion, template: Mapping[str, Any], main: str, port_name: str, path: str
) -> dict[str, Any]:
    """Return a pod template whose main container, the one of that name or the first, is ready for this operator."""
    name_unknown(conversion, template, {"metadata", "spec"}, f"{path}.template")
    spec = dict(template.get("spec") or {})
    containers = [dict(container) for container in spec.get("containers") or []]
    if not containers:
        raise ConversionError(f"{conversion.name}: {path} has no container: add one to template.spec.containers")
    names = [container.get("name") for container in containers]
    trains = containers[names.index(main) if main in names else 0]
    if main not in names:
        conversion.note(
            f"{path} has no container named {main}: its first one, {trains.get('name')}, trains and gets TF_CONFIG."
        )
    _rename_port(conversion, trains, port_name, path)
    if any(entry.get("name") == "TF_CONFIG" for entry in trains.get("env") or []):
        trains["env"] = [entry for entry in trains["env"] if entry.get("name") != "TF_CONFIG"]
        conversion.note(f"{path}: TF_CONFIG is left out of env, because the operator sets it.")
    if spec.pop("restartPolicy", None):
        conversion.note(f"{path}: template.spec.restartPolicy is left out; that of the role decides.")
    metadata = {part: held for part, held in (template.get("metadata") or {}).items() if held}
    return {**({"metadata": metadata} if metadata else {}), "spec": {**spec, "containers": containers}}


def _rename_port(conversion: Conversion, container: dict[str, Any], port_name: str, path: str) -> None:
    ports = [dict(port) for port in container.get("ports") or []]
    for port in ports:
        if port.get("name") == port_name:
            port["name"] = "tf"
            conversion.note(f"{path}: port {port_name} is called tf.")
    if ports:
        container["ports"] = ports
