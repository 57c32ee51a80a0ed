"""The logger of the package, and its level."""

from __future__ import annotations

import logging
import sys

LEVELS = ("debug", "info", "warning", "error", "critical")


class _Stderr(logging.Handler):
    """A handler that writes to the current `sys.stderr`, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


def get_logger(name: str = "chop") -> logging.Logger:
    """Return the logger `name`, as a child of the logger of the package."""
    inside = name == "chop" or name.startswith("chop.")
    return logging.getLogger(name if inside else f"chop.{name}")


def set_logging_verbosity(level: str = "info") -> None:
    """Print messages of this level and above on stderr; a second call changes the level."""
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown logging level '{level}'; allowed: {', '.join(LEVELS)}")
    logger = get_logger()
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper())
