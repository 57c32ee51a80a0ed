"""Runs `ch` as `python -m chop`."""

import sys

from chop.cli import main

if __name__ == "__main__":
    sys.exit(main())
