"""Passes over graphs."""

from chop.passes.graph import analysis, interface, transforms
from chop.passes.graph.analysis import *  # noqa: F403  # each list of names is said once, in its folder
from chop.passes.graph.analysis.explain import explain, explain_node
from chop.passes.graph.interface import *  # noqa: F403
from chop.passes.graph.transforms import *  # noqa: F403

__all__ = ["explain", "explain_node"]
__all__ += analysis.__all__
__all__ += interface.__all__
__all__ += transforms.__all__
