"""`python -m dtj` is the command `dtj`."""

from dtj.cli import main

main()
