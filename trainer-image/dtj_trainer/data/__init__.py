"""Data for training: sources, and the Pipeline that turns them into batches."""

from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.sources.arrays import numpy
from dtj_trainer.data.sources.csv_files import csv
from dtj_trainer.data.sources.parquet_files import parquet
from dtj_trainer.data.sources.tfrecord_files import tfrecord

__all__ = ["Pipeline", "csv", "numpy", "parquet", "tfrecord"]
