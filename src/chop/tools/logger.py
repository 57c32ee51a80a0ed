"""Where the package's log goes, and how much of it."""

from __future__ import annotations

import logging
import sys

LEVELS = ("debug", "info", "warning", "error", "critical")


class _Stderr(logging.Handler):
    """Writes to whatever stands for the standard error output now, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


def get_logger(name: str = "chop") -> logging.Logger:
    """The logger called `name`, below that of the package."""
    inside = name == "chop" or name.startswith("chop.")
    return logging.getLogger(name if inside else f"chop.{name}")


def set_logging_verbosity(level: str = "info") -> None:
    """Show the package's messages of this level and above; may be called again to change the level."""
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown logging level '{level}'; allowed: {', '.join(LEVELS)}")
    logger = get_logger()
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper())
