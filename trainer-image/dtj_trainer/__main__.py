"""`python -m dtj_trainer` is `dtj-run`."""

from dtj_trainer.run import main

if __name__ == "__main__":
    main()
