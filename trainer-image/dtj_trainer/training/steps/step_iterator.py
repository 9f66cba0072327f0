"""What a compiled step reads its batches from."""

from typing import Any

from dtj_trainer.data.adapters.batch_split import split_for_replicas


def step_iterator(dataset: Any, strategy: Any, local_replicas: int) -> Any:
    """An iterator over this process's batches, one element a replica: a plain one for one replica on the CPU,
    TensorFlow's distributed one for several, or on GPUs.
    """
    import tensorflow as tf

    if local_replicas == 1 and not tf.config.list_physical_devices("GPU"):
        return iter(dataset)
    if local_replicas > 1:
        dataset = split_for_replicas(dataset, local_replicas)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = dataset.with_options(options)
    return iter(strategy.distribute_datasets_from_function(lambda _: dataset))
