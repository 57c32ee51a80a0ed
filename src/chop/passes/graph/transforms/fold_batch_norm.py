"""Fold batch normalisation into the layers next to it."""

from __future__ import annotations

from chop.hardware.resolve import fold_batch_norms
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.data_args import LabelledDataArgs
from chop.statistics.scoring import accuracy_on


@register_pass("fold_batch_norm", kind="transform")
def fold_batch_norm_transform_pass(graph: MaseGraph, args: LabelledDataArgs) -> PassResult:
    """Fold each batch norm into the linear layer or convolution before it, or else after it.

    The folded weights are rounded to the formats of their layer again. `info["renamed"]` has, for each batch norm
    that is gone, the node that computes its result; `info["accuracy"]` the accuracy before and after.
    """
    batches = None if args.labelled_batches is None else list(args.labelled_batches)
    before = accuracy_on(graph, batches)
    renamed = fold_batch_norms(graph)
    graph.model.recompile()
    return graph, {"renamed": renamed, "accuracy": {"before": before, "after": accuracy_on(graph, batches)}}
