"""Rounding that lets later weights make up for the error of earlier ones (GPTQ)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs, LayerProblem, adjust_layers
from chop.passes.graph.transforms.low_bits.matrices import to_matrices
from chop.passes.graph.transforms.low_bits.scales import FixedScales

_BLOCK = 64
"""Columns whose errors are applied to the columns after them in one product."""


@dataclass(frozen=True)
class GPTQArgs(CalibrationArgs):
    """Arguments of `gptq`."""

    search_scales: bool = True
    """Whether the scale of each group is chosen for the least error, rather than from its largest weight."""
    damping: float = 0.01
    """What is added to the diagonal of the Hessian, as a fraction of its mean."""
    order: bool = True
    """Whether the inputs with the largest mean square are rounded first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.damping > 0:
            raise ValueError(f"'damping' must be above 0, got {self.damping}")


@register_pass("gptq", kind="transform")
def gptq_transform_pass(graph: MaseGraph, args: GPTQArgs) -> PassResult:
    """Round the weights of quantised layers such that their outputs, not the weights, have the least error.

    Scales are fixed first. Then the weights of one input after the other are rounded, and those that are not
    rounded yet make up for the error (Frantar et al., ICLR 2023). An output keeps its rounding to nearest if that
    is better.
    `info["layers"]` has the signal-to-noise ratio of each layer's output in dB, before and after.
    """
    return graph, adjust_layers(graph, args, "gptq", lambda problem: round_layer(problem, args))


def round_layer(problem: LayerProblem, args: GPTQArgs) -> Tensor:
    """Return the rounded weight of a layer."""
    fixed = problem.fixed_scales(args.search_scales)
    results = []
    for group, products in enumerate(problem.moments.products):
        scales = None if fixed.scales is None else fixed.scales[group]

        def rounded(columns: Tensor, at: Tensor | int, scales: Tensor | None = scales) -> Tensor:
            return fixed.rounded(columns, None if scales is None else scales[:, at])

        targets = _held_values(problem, fixed, group)
        results.append(round_columns(problem.weight[group], products, rounded, targets, args.damping, args.order))
    return torch.stack(results)


def _held_values(problem: LayerProblem, fixed: FixedScales, group: int) -> Tensor:
    """Return the values of weights that determine a scale or are pruned, and so may not change; else NaN."""
    held = torch.full_like(problem.weight[group], torch.nan)
    if fixed.held is not None and fixed.reference is not None and fixed.scales is not None:
        values = fixed.rounded(fixed.reference[group], fixed.scales[group])
        held = torch.where(fixed.held[group], values, held)
    mask = problem.layer.mask_of("weight")
    return held if mask is None else torch.where(to_matrices(problem.layer, mask)[group] == 0, 0.0, held)


def round_columns(
    weight: Tensor,
    products: Tensor,
    rounded: Callable[[Tensor, Tensor | int], Tensor],
    held: Tensor | None = None,
    damping: float = 0.01,
    order: bool = True,
) -> Tensor:
    """Return a rounded weight [outputs, inputs] with little error for inputs with these mean products.

    `rounded(column, i)` rounds values of column i. Where `held` is not NaN, it has the result.
    """
    factor, places = _inverse_factor(products, damping, order)
    remaining = weight.to(factor.dtype)[:, places]
    result = torch.empty_like(weight)
    for start in range(0, len(places), _BLOCK):
        stop = min(start + _BLOCK, len(places))
        errors = torch.empty(len(weight), stop - start, dtype=factor.dtype)
        block = remaining[:, start:stop]
        for i in range(stop - start):
            at = int(places[start + i])
            column = rounded(block[:, i].to(weight.dtype), at)
            if held is not None:
                column = torch.where(held[:, at].isnan(), column, held[:, at])
            result[:, at] = column
            row = factor[start + i, start + i : stop]
            errors[:, i] = (block[:, i] - column) / row[0]
            block[:, i + 1 :].addr_(errors[:, i], row[1:], alpha=-1)
        remaining[:, stop:] -= errors @ factor[start:stop, stop:]
    return result


def _inverse_factor(products: Tensor, damping: float, order: bool) -> tuple[Tensor, Tensor]:
    """Return the upper Cholesky factor of the inverse Hessian, and the order of the inputs that it is for."""
    diagonal = products.diagonal()
    places = diagonal.argsort(descending=True) if order else torch.arange(len(diagonal))
    hessian = products[places][:, places]
    hessian.diagonal().add_(max(damping * float(diagonal.mean()), torch.finfo(products.dtype).tiny))
    hessian.diagonal()[hessian.diagonal() == 0] = 1.0
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    return torch.linalg.cholesky(inverse, upper=True), places
