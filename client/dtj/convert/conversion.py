"""What a conversion gives: a manifest, and a sentence for everything that behaves differently or is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtj.convert.fields import Fields, one_line

NAME_MAX = 40
NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
ROLES = ("chief", "worker", "ps", "evaluator")
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
SET_BY_SERVER = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields",
    "resourceVersion", "selfLink", "uid",
)  # fmt: skip
"""Metadata of an object that was read from an API server."""


class ConversionError(Exception):
    """A job that cannot be converted; the message is a sentence that names it and the place, and says what to do."""


@dataclass(slots=True)
class Conversion:
    """A DistributedTrainingJob in the making."""

    name: str
    """Kind and name of the job that is converted, for people."""
    manifest: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    """What behaves differently or is left out, each in one sentence."""

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the new job."""
        found: dict[str, Any] = self.manifest["spec"]
        return found

    def note(self, sentence: str) -> None:
        """Tell of a difference, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def error(self, sentence: str) -> ConversionError:
        """Return the error that this job cannot be converted."""
        return ConversionError(f"{self.name}: {sentence}")


def start_conversion(document: Mapping[str, Any], api_version: str) -> tuple[Conversion, Fields]:
    """Return an empty job with the name, labels and annotations of another, and the fields of that.

    Raises ConversionError, also where the other has another version than `api_version`.
    """
    manifest: dict[str, Any] = {"apiVersion": "dtj.dev/v1alpha1", "kind": "DistributedTrainingJob"}
    conversion = Conversion(str(document["kind"]), manifest)
    job = Fields(conversion, "", document)
    job.string("kind")
    metadata = job.object_at("metadata")
    name = metadata.string("name")
    conversion.name += f" {one_line(name)}" if name else ""
    if (version := job.string("apiVersion")) != api_version:
        raise job.error(
            "apiVersion", f"is {one_line(version) if version else 'missing'}: rewrite the job for {api_version} first"
        )
    if not name:
        raise metadata.error("name", "is missing: give the job one")
    if len(name) > NAME_MAX:
        raise metadata.error(
            "name",
            f"has {len(name)} characters, and that of a DistributedTrainingJob has at most {NAME_MAX}, so that the "
            "names of its pods fit: choose a shorter one",
        )
    if not NAME.fullmatch(name):
        raise metadata.error(
            "name",
            "becomes part of host names: use a-z, 0-9 and '-', begin with a letter, and end with a letter or digit",
        )
    manifest |= {"metadata": {"name": name, **_metadata(metadata)}, "spec": {}}
    if QUEUE_LABEL in manifest["metadata"].get("labels", {}):
        conversion.note(
            f"metadata.labels.{QUEUE_LABEL} has no effect: there are no queues yet, and a job with suspend: true waits "
            "until you set it to false."
        )
    job.leave_out("status", "the operator writes another")
    return conversion, job


def _metadata(given: Fields) -> dict[str, Any]:
    """Return namespace, labels and annotations; tells what else there is."""
    annotations = given.object_at("annotations")
    annotations.leave_out(APPLIED, "kubectl apply writes another")
    kept = {
        "namespace": given.string("namespace"),
        "labels": string_map(given.object_at("labels")),
        "annotations": string_map(annotations, without=APPLIED),
    }
    for name in SET_BY_SERVER:
        given.leave_out(name, "the API server sets it")
    given.name_rest()
    return {name: value for name, value in kept.items() if value}


def string_map(given: Fields, without: str | None = None) -> dict[str, str]:
    """Read labels or annotations, but for the one called `without`."""
    return {name: given.string(name) for name in given if name != without}
