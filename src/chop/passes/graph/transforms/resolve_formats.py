"""Complete the number formats that hardware needs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from chop.config import ResolveOptions
from chop.hardware.resolve import resolve_formats
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.data_args import LabelledDataArgs
from chop.statistics.scoring import accuracy_on

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ResolveFormatsArgs(ResolveOptions, LabelledDataArgs):
    """Arguments of `resolve_formats`."""


@register_pass("resolve_formats", kind="transform")
def resolve_formats_transform_pass(graph: MaseGraph, args: ResolveFormatsArgs) -> PassResult:
    """Give every node the fixed-point formats that hardware needs, from its nearest neighbour.

    A batch norm becomes a factor and a summand per channel; the mean of a number of elements that is not a power of
    two, a product with a quantised reciprocal; the scale of binary and ternary weights is rounded to fixed point.
    `info` has the formats that were `completed`, by node and operand; the nodes that are `exact` without a format;
    the `reciprocals`; the `scales`; and the `accuracy` before and after.
    """
    batches = None if args.labelled_batches is None else list(args.labelled_batches)
    before = accuracy_on(graph, batches)
    resolved = resolve_formats(graph, args.strict)
    graph.model.recompile()
    for node, formats in resolved.completed.items():
        shown = ", ".join(f"{name} {number_format}" for name, number_format in formats.items())
        logger.info("resolve_formats '%s': %s", node, shown)
    return graph, {
        "completed": resolved.completed,
        "exact": resolved.exact,
        "reciprocals": resolved.reciprocals,
        "scales": resolved.scales,
        "accuracy": {"before": before, "after": accuracy_on(graph, batches)},
    }
