"""Writes the CRD, generated from the resource's model, to the places that ship it (`make generate`)."""

from __future__ import annotations

import sys
from pathlib import Path

from dtj_operator.api.crd import crd_yaml

ROOT = Path(__file__).resolve().parent.parent
FILE = "dtj.dev_distributedtrainingjobs.yaml"
TARGETS = (ROOT / "crds" / FILE, ROOT / "charts" / "dtj-operator" / "files" / FILE)


def main() -> int:
    text = crd_yaml()
    for target in TARGETS:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(target.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
