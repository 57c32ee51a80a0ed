"""As many threads as the work is worth: on small layers they wait for each other longer than they compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

ENOUGH = 50_000_000  # multiplications in a batch, from which on several threads pay


@contextmanager
def fitting_threads(num_multiplications: float) -> Iterator[None]:
    """One thread within, if the forward run of a batch takes few multiplications; `OMP_NUM_THREADS` goes first.

    The number depends on the work only, never on the time it takes: the same run gives the same bits.
    """
    before = torch.get_num_threads()
    if num_multiplications < ENOUGH and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def multiplications(model: nn.Module, features: Tensor) -> float:
    """About how many multiplications a row takes: for each output of a layer, the weights that make it."""
    total = 0.0

    def count(layer: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() > 1 and isinstance(output, Tensor):
            total += output.numel() * weight[0].numel() / len(features)

    hooks = [layer.register_forward_hook(count) for layer in model.modules()]
    try:
        model(features)
    finally:
        for hook in hooks:
            hook.remove()
    return total
