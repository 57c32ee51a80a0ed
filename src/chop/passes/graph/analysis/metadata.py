"""Passes that add metadata to a graph's nodes, and one that checks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from chop.formats.float import Float
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.annotate import annotate, init_metadata, init_software_metadata
from chop.nn.quantized import QuantizedLayer
from chop.passes.base import NoArgs, PassResult, register_pass


@register_pass("init_metadata", kind="analysis")
def init_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Add empty metadata to every node, as `node.meta["mase"]`."""
    init_metadata(graph)
    return graph, {}


@dataclass(frozen=True)
class CommonMetadataArgs:
    """Arguments of `add_common_metadata`."""

    dummy_in: Mapping[str, Any]
    """One batch by argument name, such as `{"x": tensor}`."""
    add_value: bool = True
    """Keep each tensor's value. False lets the activations of a large model be freed."""
    add_range: bool = False
    """Keep the largest magnitude of each tensor, from which formats are chosen if there are no values."""


@register_pass("add_common_metadata", kind="analysis")
def add_common_metadata_analysis_pass(graph: MaseGraph, args: CommonMetadataArgs) -> PassResult:
    """Add each node's op, and the shapes, dtypes, formats and values of its tensors, from one run on `dummy_in`."""
    annotate(graph, args.dummy_in, keep_values=args.add_value, keep_ranges=args.add_range)
    return graph, {}


@register_pass("add_software_metadata", kind="analysis")
def add_software_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Add an empty entry for statistics, `{"stat": {}}`, to every tensor of every node."""
    init_software_metadata(graph)
    return graph, {}


@register_pass("add_pruning_metadata", kind="analysis")
def add_pruning_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Report the share of zeros in the weights and activations of each node.

    Activations are those of the annotating run, if it kept values. The result is also stored on each node, as
    `software["sparsity"]`.
    """
    report: dict[str, dict[str, float]] = {}
    for meta in graph.annotated_metas():
        sparsity: dict[str, float] = {}
        for name, tensor in (*meta.args.items(), *meta.results.items()):
            value = meta.value(name) if tensor.dtype.is_floating_point else None
            if value is None or value.numel() == 0:
                continue
            if tensor.is_parameter and isinstance(meta.quantized, QuantizedLayer):
                value = meta.quantized.rounded(name, value)
            sparsity[name] = 1 - float(torch.count_nonzero(value)) / value.numel()
        if sparsity:
            report[meta.node.name] = meta.software["sparsity"] = sparsity
    return graph, {"by_node": report}


@register_pass("verify_common_metadata", kind="analysis")
def verify_common_metadata_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Check that the metadata agrees with the graph: ops, shapes along its edges, formats of its layers."""
    metas = {meta.node: meta for meta in graph.annotated_metas()}
    for meta in metas.values():
        problem = next(_problems(meta, metas), None)
        if problem:
            raise ValueError(f"node '{meta.node.name}': {problem}; run add_common_metadata_analysis_pass again")
    return graph, {"num_nodes": len(metas)}


def _problems(meta: NodeMeta, metas: Mapping[fx.Node, NodeMeta]) -> Iterator[str]:
    """Yield every contradiction between a node and its metadata."""
    if meta.op is not meta.find_op():
        yield f"its metadata says '{meta.mase_op}' but it calls something else"
        return
    if meta.op is not None:
        for name, _, source in meta.op.bound(meta.node.args, meta.node.kwargs):
            if isinstance(source, fx.Node) and name in meta.args and len(metas[source].results) == 1:
                made = metas[source].results["data_out_0"]
                if (made.shape, made.dtype) != (meta.args[name].shape, meta.args[name].dtype):
                    yield f"'{name}' has shape {meta.args[name].shape} but '{source.name}' returns {made.shape}"
    for name, tensor in meta.args.items():
        value = meta.value(name) if tensor.is_parameter else None
        if value is not None and list(value.shape) != tensor.shape:
            yield f"'{name}' has shape {list(value.shape)} but its metadata says {tensor.shape}"
    quantized = meta.quantized
    for name, tensor in {**meta.args, **meta.results}.items():
        actual = quantized.formats.get(name, Float()) if quantized else Float()
        if actual != tensor.format:
            yield f"'{name}' has format {actual} but its metadata says {tensor.format}"
