"""Passes that change the graph."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

from chop.passes.graph.transforms.calibrate import *
from chop.passes.graph.transforms.hardware import *
from chop.passes.graph.transforms.low_bits import *
from chop.passes.graph.transforms.prune import *
from chop.passes.graph.transforms.quantize import *

if not TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = [name for name in dir() if name.endswith(("_analysis_pass", "_transform_pass"))]
