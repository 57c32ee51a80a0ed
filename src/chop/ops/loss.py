"""Losses and distances of two tensors: never quantised; the operations of losses are unknown."""

from __future__ import annotations

import re

import torch.nn.functional as F
from torch import nn

from chop.ops.base import Call, Count, Op, numel
from chop.ops.spellings import data, register_spelled
from chop.ops.table import register_op

_FUNCTIONS = {
    nn.BCELoss: "binary_cross_entropy",
    nn.BCEWithLogitsLoss: "binary_cross_entropy_with_logits",
    nn.CrossEntropyLoss: "cross_entropy",
    nn.KLDivLoss: "kl_div",
    nn.MultiLabelMarginLoss: "multilabel_margin_loss",
    nn.MultiLabelSoftMarginLoss: "multilabel_soft_margin_loss",
    nn.TripletMarginWithDistanceLoss: "triplet_margin_with_distance_loss",
}
_LOSSES = [
    *(nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss, nn.CrossEntropyLoss, nn.NLLLoss, nn.PoissonNLLLoss),
    *(nn.GaussianNLLLoss, nn.KLDivLoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.CTCLoss, nn.HingeEmbeddingLoss),
    *(nn.CosineEmbeddingLoss, nn.MarginRankingLoss, nn.MultiMarginLoss, nn.MultiLabelMarginLoss),
    *(nn.MultiLabelSoftMarginLoss, nn.SoftMarginLoss, nn.TripletMarginLoss, nn.TripletMarginWithDistanceLoss),
]


def _name(module: type[nn.Module]) -> str:
    """Return the name of the function of a loss: `smooth_l1_loss` for SmoothL1Loss."""
    words = re.findall(r"[A-Z]+\d*(?=[A-Z][a-z])|[A-Z][a-z]+|[A-Z]+\d*", module.__name__)
    return _FUNCTIONS.get(module, "_".join(words).lower())


for _module in _LOSSES:
    register_spelled(
        _name(_module),
        "module_related_func",
        data(None, "input", "target"),
        modules=(_module,),
        count=lambda call: None,
    )


def _cosine_count(call: Call) -> Count:
    """Count the product of both tensors, the squares of each, and per row a root and a division."""
    n = numel(call.operands["data_in_0"])
    return Count(multiplies=3 * n + 2 * numel(call.results[0]), adds=3 * n)


def _distance_count(call: Call) -> Count:
    """Count a difference, a power and an addition per element, and a root per row."""
    n = numel(call.operands["data_in_0"])
    return Count(multiplies=n + numel(call.results[0]), adds=2 * n)


register_spelled(
    "cosine_similarity",
    "module_related_func",
    data(None, "x1", "x2"),
    modules=(nn.CosineSimilarity,),
    count=_cosine_count,
)
register_op(
    Op(
        "pairwise_distance",
        "module_related_func",
        data(None, "x1", "x2"),
        modules=(nn.PairwiseDistance,),
        functions=(F.pairwise_distance,),
        count=_distance_count,
    )
)


def _all_pairs_count(call: Call) -> Count:
    """Count as `pairwise_distance` for each result."""
    results, width = numel(call.results[0]), call.operands["data_in_0"][-1]
    return Count(multiplies=results * (width + 1), adds=2 * results * width)


register_spelled(
    "cdist", "module_related_func", data(None, "x1", "x2"), aten=("_cdist_forward",), count=_all_pairs_count
)
register_op(
    Op(
        "pdist",
        "module_related_func",
        data(None),
        functions=(F.pdist,),
        aten=("_pdist_forward",),
        count=_all_pairs_count,
    )
)
