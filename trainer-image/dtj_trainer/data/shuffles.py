"""Shuffles in a tf.data graph that come out differently in each process."""

from collections.abc import Iterator
from typing import Any

from dtj_trainer.compat import tensorflow as compat

SHUFFLES = ("ShuffleDataset", "ShuffleDatasetV2", "ShuffleDatasetV3", "ShuffleAndRepeatDataset")
"""Their third and fourth inputs are the seeds; two zeros mean a random order (tf.data's random_seed.get_seed)."""


def unseeded(dataset: Any) -> bool:
    """Whether a `shuffle` of the dataset, at any depth, has neither a seed of its own nor a global one."""
    graph = compat.dataset_graph(dataset)
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return any(all(seed == 0 for seed in seeds) for nodes in bodies for seeds in _seeds(nodes))


def _seeds(nodes: Any) -> Iterator[list[int | None]]:
    constants = {node.name: node.attr["value"].tensor for node in nodes if node.op == "Const"}
    for node in nodes:
        if node.op.startswith(SHUFFLES):
            names = [name.split(":")[0] for name in node.input[2:4]]
            yield [_number(constants[name]) if name in constants else None for name in names]


def _number(tensor: Any) -> int:
    import tensorflow as tf

    return int(tf.make_ndarray(tensor))
