"""Save a graph to a folder, and load it."""

from __future__ import annotations

from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.interface.args import LoadArgs, SaveArgs


@register_pass("save_mase_graph", kind="interface", keeps_weights=True)
def save_mase_graph_interface_pass(graph: MaseGraph, args: SaveArgs) -> PassResult:
    """Write the graph, its weights, formats and metadata to a folder as JSON and safetensors, without pickle."""
    save_graph(graph, args.save_dir)
    return graph, {}


@register_pass("load_mase_graph", kind="interface")
def load_mase_graph_interface_pass(graph: MaseGraph | None, args: LoadArgs) -> PassResult:
    """Load a saved graph, bit for bit. If it has layers from outside torch.nn, give a `graph` of the same model."""
    return load_graph(args.load_dir, into=graph), {}
