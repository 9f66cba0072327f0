"""A synthetic log of clicks in Criteo's format."""

from pathlib import Path

import numpy as np

LINES = 2000


def write_log(path: Path) -> None:
    """Write lines like Criteo's: half of them clicked, as the first category tells; every seventh field is missing."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="ascii") as file:
        for line in range(LINES):
            label = int(rng.integers(2))
            numbers = [str(n) for n in rng.poisson(20, 13) - 1]
            kinds = [f"{kind:08x}" for kind in rng.zipf(1.5, 26) % 2**32]
            fields = [field if (line + n) % 7 else "" for n, field in enumerate([*numbers, *kinds])]
            fields[13] = f"{0xCAFE0000 + label:08x}"
            file.write("\t".join([str(label), *fields]) + "\n")
