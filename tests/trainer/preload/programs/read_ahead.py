"""Preloads with the list that the first argument names, after writing it if it is told to `write`."""

import json
import sys

from dtj_trainer.preload import read_ahead
from dtj_trainer.preload.imports import preload

read_ahead.LIST = sys.argv[1]  # type: ignore[misc]
if "write" in sys.argv:
    read_ahead.main()
else:
    preload()
read = [name for name, module in sys.modules.items() if type(getattr(module, "__loader__", None)) is read_ahead._Read]
sys.stdout.write(json.dumps({"modules": sorted(sys.modules), "read": len(read)}))
