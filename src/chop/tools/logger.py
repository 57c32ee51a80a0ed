"""The logger of the package, and its level."""

from __future__ import annotations

import logging
import sys

from chop.display.progress import CLEAR_LINE

LEVELS = ("debug", "info", "warning", "error", "critical")


class _Stderr(logging.Handler):
    """A handler that writes to the current `sys.stderr`, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        status_line = CLEAR_LINE if sys.stderr.isatty() else ""  # it is drawn again below the message
        sys.stderr.write(f"{status_line}{self.format(record)}\n")


class _Once(logging.Filter):
    """A filter that drops a warning which has been shown before, as from each run of a grid."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is new; messages of other levels are always shown."""
        if record.levelno != logging.WARNING:
            return True
        message = record.getMessage()
        is_new = message not in self._seen
        self._seen.add(message)
        return is_new


def get_logger(name: str = "chop") -> logging.Logger:
    """Return the logger `name`, as a child of the logger of the package."""
    inside = name == "chop" or name.startswith("chop.")
    return logging.getLogger(name if inside else f"chop.{name}")


def set_logging_verbosity(level: str = "info", *, repeat_warnings: bool = True) -> None:
    """Print messages of this level and above on stderr; a second call changes the level.

    Without `repeat_warnings`, a warning is shown once, from this call on.
    """
    if level.lower() not in LEVELS:
        raise ValueError(f"unknown logging level '{level}'; allowed: {', '.join(LEVELS)}")
    logger = get_logger()
    if not any(isinstance(handler, _Stderr) for handler in logger.handlers):
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        logger.addHandler(handler)
    for ours in (each for each in logger.handlers if isinstance(each, _Stderr)):
        ours.filters = [] if repeat_warnings else [_Once()]
    logger.setLevel(level.upper())
