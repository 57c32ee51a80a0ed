"""Explore number formats, cost and hardware of PyTorch models.

The names below are imported when they are first used, so that `import chop` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chop import passes
    from chop.api import (
        Evaluation,
        Exported,
        Run,
        evaluate,
        export,
        open_run,
        plot,
        report,
        search,
        sweep,
        train,
        transform,
        trust,
    )
    from chop.dataset import MaseDataModule, get_dataset_info
    from chop.ir import MaseGraph
    from chop.models import get_model, get_model_info

__version__ = "0.1.0"

__all__ = [
    "Evaluation",
    "Exported",
    "MaseDataModule",
    "MaseGraph",
    "Run",
    "__version__",
    "evaluate",
    "export",
    "get_dataset_info",
    "get_model",
    "get_model_info",
    "open_run",
    "passes",
    "plot",
    "report",
    "search",
    "sweep",
    "train",
    "transform",
    "trust",
]

_MODULES = {
    "Evaluation": "chop.api",
    "Exported": "chop.api",
    "MaseDataModule": "chop.dataset",
    "MaseGraph": "chop.ir",
    "Run": "chop.api",
    "evaluate": "chop.api",
    "export": "chop.api",
    "get_dataset_info": "chop.dataset",
    "get_model": "chop.models",
    "get_model_info": "chop.models",
    "open_run": "chop.api",
    "plot": "chop.api",
    "report": "chop.api",
    "search": "chop.api",
    "sweep": "chop.api",
    "train": "chop.api",
    "transform": "chop.api",
    "trust": "chop.api",
}


def __getattr__(name: str) -> object:
    if name == "passes":
        return import_module("chop.passes")
    if name not in _MODULES:
        raise AttributeError(f"module 'chop' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
