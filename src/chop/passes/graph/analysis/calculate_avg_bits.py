"""Average bits of a graph's numbers."""

from __future__ import annotations

from dataclasses import dataclass

from chop.cost import input_storage, weight_storage
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class AverageBitsArgs:
    """Nothing to choose."""


@register_pass("calculate_avg_bits_mg", kind="analysis")
def calculate_avg_bits_mg_analysis_pass(graph: MaseGraph, args: AverageBitsArgs) -> PassResult:
    """Bits of an element on average: `w_avg_bit` of weights and biases, `data_avg_bit` of inputs.

    Taken over all nodes that can be quantised, for the batch of the annotating run; what is not quantised has
    32 bits. A weight that several nodes use counts once. An average over nothing is 0.
    """
    metas = graph.annotated_metas()
    return graph, {"w_avg_bit": weight_storage(metas).average, "data_avg_bit": input_storage(metas).average}
