"""Turns jobs of other operators into DistributedTrainingJobs, and tells what behaves differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtj.convert.conversion import Conversion, ConversionError
from dtj.convert.tfjob import convert_tfjob, is_tfjob
from dtj.convert.volcano import convert_volcano_job, is_volcano_job

__all__ = ["Conversion", "ConversionError", "convert"]


def convert(document: Mapping[str, Any]) -> Conversion | None:
    """Return the job that does the same as a TFJob or a job of Volcano; None for a document of another kind.

    Raises ConversionError.
    """
    if is_tfjob(document):
        return convert_tfjob(document)
    return convert_volcano_job(document) if is_volcano_job(document) else None
