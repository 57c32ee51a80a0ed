"""Cost of a graph: operations, bit operations, bits per element, and estimates of memory, energy and time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chop.cost import Device, Energy, bitops, estimate, flops, input_storage, operations, weight_storage
from chop.cost.conventions import Number, exact_int
from chop.ir import MaseGraph, NodeMeta
from chop.passes.base import NoArgs, PassResult, register_pass

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
    counted = _count(graph, "count_flops", "flop", lambda meta: flops(meta, args.convention))
    in_all_formats = sum(operations(meta, args.convention) or 0 for meta in graph.metas())
    return graph, {"total_flops": sum(counted["by_node"].values()), "total_operations": in_all_formats, **counted}


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
    counted = _count(graph, "count_bitops", "bitops", lambda meta: bitops(meta, args.convention))
    return graph, {"total_bitops": exact_int(sum(counted["by_node"].values())), **counted}


def _count(graph: MaseGraph, name: str, note: str, count: Callable[[NodeMeta], Number | None]) -> dict[str, Any]:
    """Note what each node counts, and return the counts by node and the nodes without one."""
    metas = graph.annotated_metas()
    counts = {meta.node.name: count(meta) for meta in metas}
    for meta in metas:
        meta.common[note] = counts[meta.node.name]
    not_counted = [node for node, number in counts.items() if number is None]
    _warn_about_unknown(name, not_counted)
    by_node = {node: number for node, number in counts.items() if number is not None}
    return {"by_node": by_node, "not_counted": not_counted}


def _warn_about_unknown(name: str, nodes: list[str]) -> None:
    if nodes:
        logger.warning("%s: nodes with unknown operations are not counted: %s", name, ", ".join(nodes))


@register_pass("calculate_avg_bits_mg", kind="analysis", compare=True)
def calculate_avg_bits_mg_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Compute the average bits per element: `w_avg_bit` for weights and biases, `data_avg_bit` for inputs.

    The averages are over all nodes that can be quantised, for the batch that the graph was annotated with. Tensors
    that are not quantised count as 32 bits. A weight that several nodes use counts once. Without elements, the
    average is 0.
    """
    metas = graph.annotated_metas()
    return graph, {"w_avg_bit": weight_storage(metas).average, "data_avg_bit": input_storage(metas).average}


@dataclass(frozen=True)
class EstimateCostArgs:
    """Arguments of `estimate_cost`."""

    convention: str = "bops"
    """How to count bit operations: `bops`, `mase`, `uniq` or `ebops`; see docs/cost.md."""
    device: Device | None = None
    """The device: `name`, `peak` operations per second by width, `bandwidth` in bytes per second."""
    energy: Energy | None = None
    """Energy of additions, multiplications and memory accesses in pJ; the defaults are for 45 nm."""


@register_pass("estimate_cost", kind="analysis", compare=True)
def estimate_cost_analysis_pass(graph: MaseGraph, args: EstimateCostArgs) -> PassResult:
    """Estimate operations, memory, energy and time of one forward pass, `by_node` and in `total`.

    `total` also has the peak memory of activations and the average bits per element. `unknown` lists the nodes
    whose operations are unknown: their counts are None, and excluded from the total. `convention` is how bit
    operations were counted.
    """
    found = estimate(graph.annotated_metas(), args.convention, args.device, args.energy)
    _warn_about_unknown("estimate_cost", list(found.unknown))
    return graph, {
        "by_node": {name: {**vars(cost)} for name, cost in found.by_node.items()},
        "total": {**vars(found.total)},
        "unknown": list(found.unknown),
        "convention": args.convention,
    }
