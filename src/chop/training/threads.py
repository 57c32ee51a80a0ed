"""The number of threads: on small layers, threads wait for each other longer than they compute."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn

from chop.ir.graph.interpreter import evaluation_mode
from chop.runs import Experiment

MIN_PARALLEL_WORK = 50_000_000  # multiplications per batch above which several threads are faster


@contextmanager
def limit_threads_for(experiment: Experiment, batch_size: int) -> Iterator[None]:
    """Use one thread if the forward pass of a batch takes few multiplications; `OMP_NUM_THREADS` takes precedence.

    The choice depends only on the amount of work, never on measured time, so that runs are reproducible.
    """
    rows = experiment.data.splits.train.features[:2].to(experiment.device)
    enough = MIN_PARALLEL_WORK / batch_size
    work = multiplications_per_row(experiment.model, rows, experiment.arguments(rows), enough=enough)
    with limit_threads(work * batch_size):
        yield


@contextmanager
def limit_threads(num_multiplications: float) -> Iterator[None]:
    """Use one thread for a small number of multiplications per batch."""
    before = torch.get_num_threads()
    if num_multiplications < MIN_PARALLEL_WORK and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _EnoughError(Exception):
    """Ends a run of a model: the rest need not be counted."""


def multiplications_per_row(
    model: nn.Module,
    features: Tensor,
    arguments: Mapping[str, Tensor] | None = None,
    *,
    enough: float = math.inf,
) -> float:
    """Estimate the multiplications per row: for each output of a layer, the weights that contribute to it.

    `arguments` are those of the model for the rows; by default, the rows are the first one. The model runs until
    `enough` are counted: a large one takes seconds.
    """
    total = 0.0

    def count(layer: nn.Module, inputs: object, output: object) -> None:
        nonlocal total
        weight = getattr(layer, "weight", None)
        if isinstance(weight, Tensor) and weight.dim() > 1 and isinstance(output, Tensor):
            total += output.numel() * weight[0].numel() / len(features)
            if total >= enough:
                raise _EnoughError

    hooks = [layer.register_forward_hook(count) for layer in model.modules()]
    try:
        with evaluation_mode(model), suppress(_EnoughError):
            model(**arguments) if arguments else model(features)
    finally:
        for hook in hooks:
            hook.remove()
    return total
