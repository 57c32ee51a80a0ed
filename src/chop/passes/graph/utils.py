"""Functions about nodes and graphs, with the names that MASE and the course notes use."""

from __future__ import annotations

import copy
from typing import cast

from torch import fx

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.node_target import get_node_actual_target

__all__ = ["deepcopy_mase_graph", "get_mase_op", "get_mase_type", "get_node_actual_target", "get_parent_name"]


def get_mase_op(node: fx.Node) -> str:
    """Return the op of an annotated node, such as `linear`."""
    return _annotated(node).mase_op


def get_mase_type(node: fx.Node) -> str:
    """Return the MASE type of an annotated node, such as `module_related_func`."""
    return _annotated(node).mase_type


def get_parent_name(target: str) -> tuple[str, str]:
    """Split the path of a submodule into its parent and its name: `a.b.c` into `("a.b", "c")`."""
    parent, _, name = target.rpartition(".")
    return parent, name


def deepcopy_mase_graph(graph: MaseGraph) -> MaseGraph:
    """Return a copy with separate parameters and metadata; the values of activations are shared."""
    return copy.deepcopy(graph)


def _annotated(node: fx.Node) -> NodeMeta:
    meta = node.meta.get("mase")
    if meta is None or not meta.annotated:
        raise ValueError(f"node '{node.name}' has no op yet; run add_common_metadata_analysis_pass first")
    return cast(NodeMeta, meta)
