"""Data for training: sources, and the Pipeline that puts them in order."""

from dtj_trainer.data.arrays import numpy
from dtj_trainer.data.parquet import parquet
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.records import tfrecord
from dtj_trainer.data.text import csv

__all__ = ["Pipeline", "csv", "numpy", "parquet", "tfrecord"]
