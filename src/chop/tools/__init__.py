"""Tools around a graph: batches, checkpoints and logging.

`InputGenerator` and `load_model` are imported when they are first used: logging does not need them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from chop.tools.logger import get_logger, set_logging_verbosity

if TYPE_CHECKING:
    from chop.runs.input_generator import InputGenerator
    from chop.runs.weights import load_model

__all__ = ["InputGenerator", "get_logger", "load_model", "set_logging_verbosity"]

_MODULES = {"InputGenerator": "chop.runs.input_generator", "load_model": "chop.runs.weights"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'chop.tools' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
