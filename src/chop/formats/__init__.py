"""Number formats, one file each. A new file in this folder is imported automatically."""

import importlib
import pkgutil

from chop.formats.parts.base import FORMATS, Format, param, parameters, register_format

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["FORMATS", "Format", "param", "parameters", "register_format"]
