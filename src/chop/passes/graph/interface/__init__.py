"""Passes that save graphs and metadata to files, and load them."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

from chop.passes.graph.interface.export import *
from chop.passes.graph.interface.storage import *

if not TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = [name for name in dir() if name.endswith("_interface_pass")]
