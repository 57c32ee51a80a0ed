"""What a graph costs: operations, bits, memory, energy, time."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass

from chop.cost import Device, Energy, estimate
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EstimateCostArgs:
    convention: str = "bops"
    """How bits weigh: `bops`, `mase`, `uniq` or `ebops`."""
    device: Device | None = None
    """What it runs on: `name`, `peak` operations a second by width, `bandwidth` in bytes a second."""
    energy: Energy | None = None
    """Picojoules of additions, multiplications and memory; what is left out is as in 45 nm."""


@register_pass("estimate_cost", kind="analysis")
def estimate_cost_analysis_pass(graph: MaseGraph, args: EstimateCostArgs) -> PassResult:
    """Operations, memory, energy and time of one forward run: `by_node`, in `total`, and what is `unknown`.

    `total` also has the most activations at one time and the average bits. Nodes whose operations are not known
    are named in `unknown`; these are None there, and not in the total.
    """
    found = estimate(graph.annotated_metas(), args.convention, args.device, args.energy)
    if found.unknown:
        logger.warning("estimate_cost: unknown operations, not counted: %s", ", ".join(found.unknown))
    return graph, {
        "by_node": {name: asdict(cost) for name, cost in found.by_node.items()},
        "total": asdict(found.total),
        "unknown": list(found.unknown),
    }
