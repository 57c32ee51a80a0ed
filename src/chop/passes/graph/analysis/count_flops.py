"""Number of floating-point operations."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from chop.cost import flops, operations
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountFlopsArgs:
    """Arguments of `count_flops`."""

    convention: str = "mase"
    """What to count: `mase` (every operation once), `macs`, or `flops` (two per MAC)."""


@register_pass("count_flops", kind="analysis", compare=True)
def count_flops_analysis_pass(graph: MaseGraph, args: CountFlopsArgs) -> PassResult:
    """Count the floating-point operations of one forward pass, by node and in total; stored as `flop` on each node.

    `total_operations` counts operations in all formats. `not_counted` lists the nodes whose operations are unknown:
    they are in neither the totals nor `by_node`, and their `flop` is None.
    """
    metas = graph.annotated_metas()
    found = {meta.node.name: flops(meta, args.convention) for meta in metas}
    for meta in metas:
        meta.common["flop"] = found[meta.node.name]
    by_node = {name: value for name, value in found.items() if value is not None}
    not_counted = [name for name in found if name not in by_node]
    if not_counted:
        logger.warning("count_flops: nodes with unknown operations are not counted: %s", ", ".join(not_counted))
    return graph, {
        "total_flops": sum(by_node.values()),
        "total_operations": sum(operations(meta, args.convention) or 0 for meta in metas),
        "by_node": by_node,
        "not_counted": not_counted,
    }
