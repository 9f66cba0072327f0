"""The operator for DistributedTrainingJob: distributed TensorFlow training on Kubernetes."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def operator_version() -> str:
    """The version of the installed distribution; `source` in a checkout that is not installed."""
    try:
        return version("dtj-training")
    except PackageNotFoundError:
        return "source"


def user_agent() -> str:
    """How the operator names itself to the API server."""
    return f"dtj-operator/{operator_version()}"
