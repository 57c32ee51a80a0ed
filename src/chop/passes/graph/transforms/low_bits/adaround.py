"""Learned rounding: whether each weight is rounded up or down (AdaRound)."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.block_rounding import learn_blocks
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem, with_damping
from chop.passes.graph.transforms.low_bits.layers import adjust_layers
from chop.passes.graph.transforms.low_bits.soft_rounding import AdaRoundArgs, SoftRounding


@register_pass("adaround", kind="transform")
def adaround_transform_pass(graph: MaseGraph, args: AdaRoundArgs) -> PassResult:
    """Learn for each weight whether it is rounded up or down, such that the layer's output has the least error.

    By gradient descent over all weights of a layer together (Nagel et al., ICML 2020), or of several layers (Li et
    al., ICLR 2021); slower than `gptq`. Scales are fixed first. `info["layers"]` has the signal-to-noise ratio of
    each layer's output in dB, or of the output of its block, before and after.
    """
    if args.layers_per_block != 1:
        return graph, learn_blocks(graph, args)
    return graph, adjust_layers(graph, args, "adaround", lambda problem: learn_rounding(problem, args))


def learn_rounding(problem: LayerProblem, args: AdaRoundArgs) -> Tensor:
    """Return the rounded weight of a layer."""
    damping = problem.damping(args.damping)
    wanted = problem.target(damping)
    soft = SoftRounding.of(problem.fixed_scales(args.search_scales, wanted), wanted, torch.float64)
    products = with_damping(problem.hessian, damping)

    def error(weight: Tensor) -> Tensor:
        difference = weight - wanted.double()
        return ((difference @ products) * difference).sum()

    nearest = max(float(error(soft.near)), torch.finfo(torch.float64).tiny)
    optimizer = torch.optim.Adam([soft.logits], lr=args.learning_rate)
    for step in range(args.iterations):
        with torch.enable_grad():
            loss = error(soft.value()) / nearest
            loss = loss + args.regularization * soft.indecision(step / args.iterations)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return soft.rounded()
