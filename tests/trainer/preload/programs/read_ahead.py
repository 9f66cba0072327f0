"""Preloads with the list that the first argument names, after writing it if it is told to `write`."""

import json
import sys

from dtj_trainer.preload import imports, read_ahead

read_ahead.LIST = sys.argv[1]  # type: ignore[misc]
if "write" in sys.argv:
    imports.main()
else:
    imports.preload()
read = [name for name, module in sys.modules.items() if type(getattr(module, "__loader__", None)) is read_ahead._Read]
sys.stdout.write(json.dumps({"modules": sorted(sys.modules), "read": len(read)}))
