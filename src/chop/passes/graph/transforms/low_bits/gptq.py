"""Rounding that lets later weights make up for the error of earlier ones (GPTQ)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem, with_damping
from chop.passes.graph.transforms.low_bits.layers import RoundingArgs, adjust_layers
from chop.passes.graph.transforms.low_bits.matrices import to_matrices
from chop.passes.graph.transforms.low_bits.scales import FixedScales

ColumnRounding = Callable[[Tensor, int], Tensor]
"""Rounds values of a column, given its index."""
_BLOCK = 64
"""Columns whose errors are applied to the columns after them in one product."""
_NO_INPUT = 1e-30
"""Mean square of inputs that are taken as 0, such as those of a channel without any activation."""
_MORE_DAMPING = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Fractions of the mean that are added to the diagonal of a Hessian, until its inverse can be computed."""


@dataclass(frozen=True)
class GPTQArgs(RoundingArgs):
    """Arguments of `gptq`."""

    order: bool = True
    """Whether the inputs with the largest mean square are rounded first."""
    earlier_layers: bool = True
    """Whether weights also make up for the errors of earlier layers, and for the rounding of inputs."""
    sweeps: int = 1
    """How often scales are chosen and all weights rounded again, given those of other inputs; 0: plain GPTQ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sweeps < 0:
            raise ValueError(f"'sweeps' must be at least 0, got {self.sweeps}")


@register_pass("gptq", kind="transform")
def gptq_transform_pass(graph: MaseGraph, args: GPTQArgs) -> PassResult:
    """Round the weights of quantised layers such that their outputs, not the weights, have the least error.

    Scales are fixed first. Then the weights of one input after the other are rounded, and those that are not
    rounded yet make up for the error (Frantar et al., ICLR 2023), and for that of earlier layers (Li et al., 2025).
    The bias makes up for the mean error. An output keeps its rounding to nearest if that is better.
    `info["layers"]` has the signal-to-noise ratio of each layer's output in dB, before and after.
    """
    compare = args.earlier_layers
    return graph, adjust_layers(graph, args, "gptq", lambda problem: round_layer(problem, args), compare=compare)


def round_layer(problem: LayerProblem, args: GPTQArgs) -> Tensor:
    """Return the rounded weight of a layer."""
    damping = problem.damping(args.damping)
    target, hessians = problem.target(damping), with_damping(problem.hessian, damping)
    fixed = problem.fixed_scales(args.search_scales, target)
    columns = _columns(problem, fixed)
    found = torch.stack([round_columns(*each, args.order) for each in zip(target, hessians, columns, strict=True)])
    for _ in range(args.sweeps):
        if args.search_scales:
            fixed, found = _with_better_scales(problem, fixed, found, target, hessians)
            columns = _columns(problem, fixed)
        groups = zip(found, target, hessians, columns, strict=True)
        found = torch.stack([refine_columns(*each) for each in groups])
    return found


def _columns(problem: LayerProblem, fixed: FixedScales) -> list[ColumnRounding]:
    """Return how the columns of each matrix are rounded; some of their values are held."""

    def rounding(scales: Tensor | None, held: Tensor) -> ColumnRounding:
        def rounded(column: Tensor, at: int) -> Tensor:
            result = fixed.rounded(column, None if scales is None else scales[:, at])
            return torch.where(held[:, at].isnan(), result, held[:, at])

        return rounded

    groups = range(len(problem.original))
    scales = [None if fixed.scales is None else fixed.scales[group] for group in groups]
    return [rounding(scales[group], _held_values(problem, fixed, group)) for group in groups]


def _with_better_scales(
    problem: LayerProblem, fixed: FixedScales, found: Tensor, target: Tensor, hessians: Tensor
) -> tuple[FixedScales, Tensor]:
    """Return scales with less error for the integers as they are, and the rounded weight with these scales."""
    if fixed.groups is None:
        return fixed, found
    matrices = zip(found, target, hessians, fixed.groups, strict=True)
    factor = torch.stack([best_factors(*each) for each in matrices])
    error = _squared_error(found, target, hessians)
    changed = problem.multiplied(fixed, factor)
    better = _squared_error(changed.rounded(found * factor, changed.scales), target, hessians) < error
    factor = torch.where(better.unsqueeze(-1), factor, 1.0)
    changed = problem.multiplied(fixed, factor)
    return changed, torch.where(better.unsqueeze(-1), changed.rounded(found * factor, changed.scales), found)


def best_factors(result: Tensor, weight: Tensor, hessian: Tensor, groups: Tensor) -> Tensor:
    """Return by what the rounded values of each group are multiplied for the least error, per element.

    One group of all rows after the other. All factors are 1 if rows share groups, or divide their columns in
    different ways.
    """
    factor = torch.ones_like(result)
    places = groups - groups[:, :1]
    if len(groups) > 1 and ((places != places[0]).any() or (groups[1:, 0] == groups[:-1, 0]).any()):
        return factor
    gradient = (weight - result.to(hessian.dtype)) @ hessian
    for place in places[0].unique():
        columns = (places[0] == place).nonzero().flatten()
        part = result[:, columns].to(hessian.dtype)
        products = part @ hessian[columns]
        curvature = (products[:, columns] * part).sum(1)
        gain = (gradient[:, columns] * part).sum(1) / torch.where(curvature > 0, curvature, 1.0)
        gain = gain.clamp(-0.5, 1.0)
        gradient -= gain.unsqueeze(1) * products
        factor[:, columns] = (1 + gain).to(factor.dtype).unsqueeze(1)
    return factor


def _squared_error(matrices: Tensor, target: Tensor, hessians: Tensor) -> Tensor:
    """Return the error of each output that the rounding has the least of, [groups, outputs]."""
    difference = matrices.double() - target
    return ((difference @ hessians) * difference).sum(-1)


def _held_values(problem: LayerProblem, fixed: FixedScales, group: int) -> Tensor:
    """Return the values of weights that determine a scale or are pruned, and so may not change; else NaN."""
    held = torch.full_like(problem.original[group], torch.nan)
    if fixed.held is not None and fixed.reference is not None and fixed.scales is not None:
        values = fixed.rounded(fixed.reference[group], fixed.scales[group])
        held = torch.where(fixed.held[group], values, held)
    mask = problem.layer.mask_of("weight")
    return held if mask is None else torch.where(to_matrices(problem.layer, mask)[group] == 0, 0.0, held)


def round_columns(weight: Tensor, hessian: Tensor, rounded: ColumnRounding, order: bool = True) -> Tensor:
    """Return a rounded weight [outputs, inputs] with little error for inputs with these mean products."""
    factor, places = _inverse_factor(hessian, order)
    remaining = weight.to(factor.dtype)[:, places]
    result = torch.empty_like(weight)
    for start in range(0, len(places), _BLOCK):
        stop = min(start + _BLOCK, len(places))
        errors = factor.new_empty(len(weight), stop - start)
        block = remaining[:, start:stop]
        for i in range(stop - start):
            at = int(places[start + i])
            column = result[:, at] = rounded(block[:, i].to(weight.dtype), at)
            row = factor[start + i, start + i : stop]
            errors[:, i] = (block[:, i] - column) / row[0]
            block[:, i + 1 :].addr_(errors[:, i], row[1:], alpha=-1)
        remaining[:, stop:] -= errors @ factor[start:stop, stop:]
    return result


def refine_columns(result: Tensor, weight: Tensor, hessian: Tensor, rounded: ColumnRounding) -> Tensor:
    """Round each column again, to the best values for the other columns as they are (coordinate descent)."""
    result = result.clone()
    gradient = (result.to(hessian.dtype) - weight) @ hessian
    for start in range(0, weight.shape[1], _BLOCK):
        stop = min(start + _BLOCK, weight.shape[1])
        changes = hessian.new_empty(len(weight), stop - start)
        block = gradient[:, start:stop].clone()
        for i, at in enumerate(range(start, stop)):
            best = result[:, at] - block[:, i] / hessian[at, at]
            column = rounded(best.to(weight.dtype), at)
            changes[:, i] = column - result[:, at]
            result[:, at] = column
            block.addr_(changes[:, i], hessian[at, start:stop])
        gradient += changes @ hessian[start:stop]
    return result


def _inverse_factor(hessian: Tensor, order: bool) -> tuple[Tensor, Tensor]:
    """Return the upper Cholesky factor of the inverse Hessian, and the order of the inputs that it is for."""
    diagonal = hessian.diagonal()
    places = diagonal.argsort(descending=True) if order else torch.arange(len(diagonal), device=hessian.device)
    if not hessian.isfinite().all():
        raise ValueError(
            "the mean products of its inputs are not finite; check the batches and the formats before it"
        )
    if diagonal.mean() < _NO_INPUT:  # its inverse would overflow, and any rounding has the same result
        return torch.eye(len(places), dtype=hessian.dtype, device=hessian.device), places
    ordered = hessian[places][:, places]
    for more in _MORE_DAMPING:
        factor, problem = torch.linalg.cholesky_ex(ordered + torch.diag(more * diagonal.mean().expand_as(diagonal)))
        if problem:
            continue
        inverse, problem = torch.linalg.cholesky_ex(torch.cholesky_inverse(factor), upper=True)
        if not problem:
            return inverse, places
    raise ValueError("the mean products of its inputs have no inverse; increase 'damping'")
