"""The sparsity of weights and activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from chop.ir import MaseGraph
from chop.nn.quantized import QuantizedLayer
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class PruningMetadataArgs:
    """`add_pruning_metadata` has no arguments."""


@register_pass("add_pruning_metadata", kind="analysis")
def add_pruning_metadata_analysis_pass(graph: MaseGraph, args: PruningMetadataArgs) -> PassResult:
    """Report the share of zeros in the weights and activations of each node.

    Activations are those of the annotating run, if it kept values. The result is also stored on each node, as
    `software["sparsity"]`.
    """
    report: dict[str, dict[str, float]] = {}
    for meta in graph.annotated_metas():
        found: dict[str, Any] = {}
        for name, tensor in (*meta.args.items(), *meta.results.items()):
            value = meta.value(name) if tensor.dtype.is_floating_point else None
            if value is None or value.numel() == 0:
                continue
            if tensor.is_parameter and isinstance(meta.quantized, QuantizedLayer):
                value = meta.quantized.rounded(name, value)
            found[name] = 1 - float(torch.count_nonzero(value)) / value.numel()
        if found:
            report[meta.node.name] = meta.software["sparsity"] = found
    return graph, {"by_node": report}
