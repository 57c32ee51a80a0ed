"""Cost of a graph: operations, bits, memory, energy, time."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from chop.cost import Device, Energy, estimate
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass

logger = logging.getLogger(__name__)


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
    if found.unknown:
        logger.warning("estimate_cost: nodes with unknown operations are not counted: %s", ", ".join(found.unknown))
    return graph, {
        "by_node": {name: {**vars(cost)} for name, cost in found.by_node.items()},
        "total": {**vars(found.total)},
        "unknown": list(found.unknown),
        "convention": args.convention,
    }
