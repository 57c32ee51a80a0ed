"""The number of threads: on small layers, threads wait for each other longer than they compute."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from chop.runs import Experiment

MIN_PARALLEL_WORK = 50_000_000  # multiplications per batch above which several threads are faster


@contextmanager
def fitting_threads(experiment: Experiment, batch_size: int) -> Iterator[None]:
    """Use one thread if the forward run of a batch takes few multiplications; `OMP_NUM_THREADS` takes precedence.

    The choice depends only on the amount of work, never on measured time, so that runs are reproducible.
    """
    work = multiplications(experiment.model, experiment.data.splits.train.features[:2])
    with threads_for(work * batch_size):
        yield


@contextmanager
def threads_for(num_multiplications: float) -> Iterator[None]:
    """Use one thread for a small number of multiplications per batch."""
    before = torch.get_num_threads()
    if num_multiplications < MIN_PARALLEL_WORK and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def multiplications(model: nn.Module, features: Tensor) -> float:
    """Estimate the multiplications per row: for each output of a layer, the weights that contribute to it."""
    total = 0.0

    def count(layer: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() > 1 and isinstance(output, Tensor):
            total += output.numel() * weight[0].numel() / len(features)

    hooks = [layer.register_forward_hook(count) for layer in model.modules()]
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(features)
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return total
