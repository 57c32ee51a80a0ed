"""The name of the command in instructions that users copy."""

from __future__ import annotations

import os


def launcher() -> str:
    """Return the command with which the user started the command line, for commands to copy."""
    return os.environ.get("CHOP_LAUNCHER", "ch")
