"""Optional packages, which only some files need."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

INSTALL = "pip install 'chop[data]'"


def need(module: str, purpose: str) -> ModuleType:
    """Return a module, or raise an error that says how to install it; `purpose` begins the message."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = {"sklearn": "scikit-learn"}.get(module.partition(".")[0], module)
        raise ValueError(f"{purpose} needs {package}, which is not installed: {INSTALL}") from error


def installed(module: str) -> bool:
    """Whether a module is installed, without importing it."""
    return find_spec(module) is not None
