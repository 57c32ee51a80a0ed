"""A softmax at the end of a network: it does not change which result is the largest."""

from __future__ import annotations

from torch import fx

from chop.ir import MaseGraph, NodeMeta

SOFTMAX = ("softmax", "log_softmax")


def remove_final_softmax(graph: MaseGraph) -> list[str]:
    """Remove a softmax whose result is the output, so that the graph returns its inputs; return its name."""
    output = next(node for node in graph.fx_graph.nodes if node.op == "output")
    node = output.args[0]
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return []
    meta: NodeMeta = node.meta["mase"]
    if meta.mase_op not in SOFTMAX:
        return []
    (source,) = node.all_input_nodes
    node.replace_all_uses_with(source)
    graph.fx_graph.erase_node(node)
    return [node.name]
