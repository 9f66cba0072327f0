"""Data for training: sources, and the Pipeline that puts them in order."""

from dtj_trainer.data.arrays import numpy
from dtj_trainer.data.pipeline import Pipeline

__all__ = ["Pipeline", "numpy"]
