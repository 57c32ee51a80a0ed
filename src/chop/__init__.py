"""Explore number formats, cost and hardware of PyTorch models.

The names below are imported when they are first used, so that `import chop` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chop.dataset import MaseDataModule, get_dataset_info
    from chop.ir import MaseGraph
    from chop.models import get_model, get_model_info

__version__ = "0.1.0"

__all__ = ["MaseDataModule", "MaseGraph", "__version__", "get_dataset_info", "get_model", "get_model_info"]

_HOMES = {
    "MaseDataModule": "chop.dataset",
    "MaseGraph": "chop.ir",
    "get_dataset_info": "chop.dataset",
    "get_model": "chop.models",
    "get_model_info": "chop.models",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'chop' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
