"""`python -m cbatch`."""

from cbatch.cli import main

main()
