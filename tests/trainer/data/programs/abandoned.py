"""Reads one batch of an endless pipeline, keeps the iterator, and ends. Arguments: a Parquet file, "map" or nothing."""

import sys

from dtj import data
from dtj_trainer.data.sharding import Shard

rows = data.parquet(sys.argv[1])
pipeline = data.Pipeline(rows, shuffle=100, map=lambda row: row) if sys.argv[2:] else data.Pipeline(rows, shuffle=100)
batches = iter(pipeline.training(Shard(1, 0, 64, 64), 0))
next(batches)
