"""`python -m dtj_trainer` is `dtj-run`."""

import sys

from dtj_trainer.run import main

if __name__ == "__main__":
    sys.exit(main())
