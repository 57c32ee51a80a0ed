"""Make pruning permanent."""

from __future__ import annotations

from dataclasses import dataclass

from chop.ir import MaseGraph
from chop.nn.quantized import QuantizedLayer
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class PruneDetachArgs:
    """`prune_detach` has no arguments."""


@register_pass("prune_detach", kind="transform")
def prune_detach_transform_pass(graph: MaseGraph, args: PruneDetachArgs) -> PassResult:
    """Remove the masks of pruned layers; their weights stay zero until they are trained.

    `info["detached"]` lists the nodes whose layer had a mask.
    """
    detached = []
    for meta in graph.annotated_metas():
        layer = meta.quantized
        if isinstance(layer, QuantizedLayer) and layer.mask_of("weight") is not None:
            layer.set_mask("weight", None)
            detached.append(meta.node.name)
    return graph, {"detached": detached}
