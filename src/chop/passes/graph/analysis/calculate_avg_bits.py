"""Average number of bits per element."""

from __future__ import annotations

from dataclasses import dataclass

from chop.cost import input_storage, weight_storage
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class AverageBitsArgs:
    """No arguments."""


@register_pass("calculate_avg_bits_mg", kind="analysis", compare=True)
def calculate_avg_bits_mg_analysis_pass(graph: MaseGraph, args: AverageBitsArgs) -> PassResult:
    """Compute the average bits per element: `w_avg_bit` for weights and biases, `data_avg_bit` for inputs.

    The averages are over all nodes that can be quantised, for the batch that the graph was annotated with. Tensors
    that are not quantised count as 32 bits. A weight that several nodes use counts once. Without elements, the
    average is 0.
    """
    metas = graph.annotated_metas()
    return graph, {"w_avg_bit": weight_storage(metas).average, "data_avg_bit": input_storage(metas).average}
