"""Graphs to folders and back."""

from __future__ import annotations

from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.interface.args import LoadArgs, SaveArgs


@register_pass("save_mase_graph", kind="interface")
def save_mase_graph_interface_pass(graph: MaseGraph, args: SaveArgs) -> PassResult:
    """Writes the graph, its weights, formats and metadata into a folder; nothing is pickled."""
    save_graph(graph, args.save_dir)
    return graph, {}


@register_pass("load_mase_graph", kind="interface")
def load_mase_graph_interface_pass(graph: MaseGraph | None, args: LoadArgs) -> PassResult:
    """The graph that was saved, bit for bit. Layers that are not torch.nn's need a `graph` of the model."""
    return load_graph(args.load_dir, into=graph), {}
