"""The part of the data that one process reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """Process `index` of `count`; `batch` examples go to it at each step, `global_batch` to all together."""

    count: int
    index: int
    batch: int
    global_batch: int
