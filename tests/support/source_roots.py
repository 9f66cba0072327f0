"""Source roots, for the PYTHONPATH of processes that tests start."""

import os
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
TRAINER: Final = os.pathsep.join(str(CHECKOUT / root) for root in ("client", "trainer-image"))
"""What the trainer image has: the public package, and the inside."""
