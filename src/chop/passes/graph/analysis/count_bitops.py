"""Bit operations of a graph."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from chop.cost.bitops import bitops
from chop.cost.conventions import whole
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CountBitopsArgs:
    convention: str = "mase"
    """How bits weigh: `mase`, `bops` (MACs x bits of data x bits of weight), `uniq`, `ebops`; see docs/cost.md."""


@register_pass("count_bitops", kind="analysis")
def count_bitops_analysis_pass(graph: MaseGraph, args: CountBitopsArgs) -> PassResult:
    """Bit operations of one forward run, by node and in total, noted as `bitops` on each node.

    What is not quantised has 32 bits. Nodes whose operations are not known are named in `not_counted`; they
    are not in the total and not in `by_node`, and the note on them is None.
    """
    metas = graph.annotated_metas()
    found = {meta.node.name: bitops(meta, args.convention) for meta in metas}
    for meta in metas:
        meta.common["bitops"] = found[meta.node.name]
    by_node = {name: value for name, value in found.items() if value is not None}
    not_counted = [name for name in found if name not in by_node]
    if not_counted:
        logger.warning("count_bitops: unknown operations, not counted: %s", ", ".join(not_counted))
    total = whole(sum(by_node.values()))
    return graph, {"total_bitops": total, "by_node": by_node, "not_counted": not_counted}
