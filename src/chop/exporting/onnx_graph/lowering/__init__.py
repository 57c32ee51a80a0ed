"""The functions that write the ONNX nodes of each op, in files by kind of op, all of which are imported."""

import importlib
import pkgutil

from chop.exporting.onnx_graph.call import LOWERINGS

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["LOWERINGS"]
