"""The shape of those fields of a pod template that the operator reads.

The CRD accepts any value in most fields of a template. A wrong type in a field that the operator
reads would fail the reconcile; all other fields go to the API server with the pod, which refuses them itself.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, ValidationError

from dtj_operator.api.wire_model import WireModel


class _Port(WireModel):
    name: str | None = None
    container_port: int | None = None


class _Mount(WireModel):
    mount_path: str | None = None


class _Resources(WireModel):
    limits: dict[str, Any] | None = None


class _Container(WireModel):
    env: list[dict[str, Any]] | None = None
    ports: list[_Port] | None = None
    resources: _Resources | None = None
    volume_mounts: list[_Mount] | None = None


class _NodeAffinity(WireModel):
    preferred: list[dict[str, Any]] | None = Field(None, alias="preferredDuringSchedulingIgnoredDuringExecution")


class _Affinity(WireModel):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(WireModel):
    affinity: _Affinity | None = None
    containers: list[_Container] | None = None
    restart_policy: str | None = None
    volumes: list[dict[str, Any]] | None = None


class _Metadata(WireModel):
    labels: dict[str, Any] | None = None


class _Template(WireModel):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


def check_pod_template(template: dict[str, Any]) -> dict[str, Any]:
    """Return the template unchanged. Raises ValueError with the first field of a wrong type."""
    try:
        _Template.model_validate(template)
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in detail["loc"])
        raise ValueError(f"{place}: {detail['msg']}") from None
    return template
