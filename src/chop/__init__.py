"""Explore number formats, cost and hardware of PyTorch models.

The names below are imported when they are first used, so that `import chop` stays instant.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from chop.compat import MovedModules

if TYPE_CHECKING:
    from chop import passes as passes
    from chop.api import *  # noqa: F403
    from chop.dataset import MaseDataModule as MaseDataModule
    from chop.dataset import get_dataset_info as get_dataset_info
    from chop.ir import MaseGraph as MaseGraph
    from chop.models import get_model as get_model
    from chop.models import get_model_info as get_model_info

__version__ = "0.1.0"
sys.meta_path.insert(0, cast(Any, MovedModules()))

_NAMES = {
    "chop.api": "Evaluation Exported Run compare evaluate export layers load open_run plot quantize report save "
    "search sweep train transform trust",
    "chop.dataset": "MaseDataModule get_dataset_info",
    "chop.ir": "MaseGraph",
    "chop.models": "get_model get_model_info",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", "passes", *_MODULES]


def __getattr__(name: str) -> object:
    if name == "passes":
        return import_module("chop.passes")
    if name not in _MODULES:
        raise AttributeError(f"module 'chop' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
