"""Number of bit operations."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from chop.cost.bitops import bitops
from chop.cost.conventions import exact_int
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountBitopsArgs:
    """Arguments of `count_bitops`."""

    convention: str = "mase"
    """How to count: `mase`, `bops` (MACs x data bits x weight bits), `uniq` or `ebops`; see docs/cost.md."""


@register_pass("count_bitops", kind="analysis", compare=True)
def count_bitops_analysis_pass(graph: MaseGraph, args: CountBitopsArgs) -> PassResult:
    """Count the bit operations of one forward pass, by node and in total; stored as `bitops` on each node.

    Tensors that are not quantised count as 32 bits. `not_counted` lists the nodes whose operations are unknown:
    they are in neither the total nor `by_node`, and their `bitops` is None.
    """
    metas = graph.annotated_metas()
    found = {meta.node.name: bitops(meta, args.convention) for meta in metas}
    for meta in metas:
        meta.common["bitops"] = found[meta.node.name]
    by_node = {name: value for name, value in found.items() if value is not None}
    not_counted = [name for name in found if name not in by_node]
    if not_counted:
        logger.warning("count_bitops: nodes with unknown operations are not counted: %s", ", ".join(not_counted))
    total = exact_int(sum(by_node.values()))
    return graph, {"total_bitops": total, "by_node": by_node, "not_counted": not_counted}
