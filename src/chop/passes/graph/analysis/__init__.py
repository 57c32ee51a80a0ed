"""Passes that measure or describe a graph without changing it."""

# mypy: implicit-reexport

from typing import TYPE_CHECKING

from chop.passes.graph.analysis.compare_graphs import *
from chop.passes.graph.analysis.cost import *
from chop.passes.graph.analysis.explain import explain_analysis_pass
from chop.passes.graph.analysis.hardware import *
from chop.passes.graph.analysis.metadata import *
from chop.passes.graph.analysis.profile_statistics import *
from chop.passes.graph.analysis.report import *
from chop.passes.graph.analysis.report_html import *
from chop.passes.graph.analysis.sensitivity import sensitivity_analysis_pass
from chop.passes.graph.analysis.verify_quantization import *

if not TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = [name for name in dir() if name.endswith("_analysis_pass")]
