"""Passes over graphs."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

from chop.passes.graph.analysis import *
from chop.passes.graph.analysis.explain import explain, explain_node
from chop.passes.graph.interface import *
from chop.passes.graph.transforms import *

if not TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = ["explain", "explain_node", *analysis.__all__, *interface.__all__, *transforms.__all__]
