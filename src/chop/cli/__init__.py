"""The command line `ch`; imports no torch until a command runs."""

from chop.cli.entry import main

__all__ = ["main"]
