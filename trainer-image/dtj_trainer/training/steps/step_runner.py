"""How many steps one call of the compiled function makes. Pure.

A call costs Python and TensorFlow a few hundred microseconds, which a tiny model feels (three times faster with
twenty steps a call); a long call delays saves, stops and reports. So calls grow until they last about TARGET_SECONDS.
"""

TARGET_SECONDS = 0.25
LARGEST = 10_000
GROWTH = 16


class Pace:
    """Steps of the next call, from the seconds a step took; equal on every process that is told the same numbers."""

    def __init__(self, least: int = 1) -> None:
        self.least = least
        """Steps that can be made at the same time: no call is shorter."""
        self.count = least

    def learn(self, seconds_per_step: float) -> None:
        """`seconds_per_step` 0 = not known yet (the first call compiles)."""
        if seconds_per_step <= 0:
            return
        wanted = int(TARGET_SECONDS / seconds_per_step)
        self.count = max(self.least, min(wanted, self.count * GROWTH, LARGEST))
