"""The speed of a quantised convolutional network in each number format, compared with float."""

from __future__ import annotations

import logging
import math

import torch
from torch import nn

from benchmarks.formats import evaluation, training
from benchmarks.results import Result
from benchmarks.statistics import annotated
from benchmarks.timing import cpu_times
from chop.allocator import keep_freed_memory
from chop.dataset.base import DatasetInfo
from chop.formats import FORMATS, parameters
from chop.models import get_model
from chop.passes.graph import quantize_transform_pass
from chop.transforming.pipeline import pass_messages_from

SUMMARY = (
    "A ResNet-20 for images of 3 x 32 x 32 with random weights; inputs and weights of all convolutions and linear "
    "layers in one format, blocks of 32 elements. Evaluation in batches of 100, training steps (forward, backward, "
    "SGD) of 32. CPU time, one thread, median of repeats that alternate; the unit is the float network in the same "
    "mode. The first row is the float network again: the noise."
)
_BARS = {"evaluation": 1.25, "training step": 1.35}


def run(quick: bool = False) -> list[Result]:
    """Return all measurements; `quick` is for tests, with too few repeats for meaningful numbers."""
    keep_freed_memory()
    names = ["integer"] if quick else [name for name in FORMATS if name != "float"]
    results = []
    for kind, mode, batch in (("evaluation", evaluation, 100), ("training step", training, 32)):
        images = torch.randn(2 if quick else batch, 3, 32, 32)
        with pass_messages_from(logging.ERROR):  # random weights fit few formats
            models = [resnet20(), resnet20(), *(quantised(name) for name in names)]
        plain, again, *times = cpu_times(*[mode(each, images) for each in models], repeats=1 if quick else 15)
        results.append(Result(f"float again, {kind}", again / plain, math.inf, "x float"))
        results += [
            Result(f"{name}, {kind}", taken / plain, _BARS[kind], "x float")
            for name, taken in zip(names, times, strict=True)
        ]
    return results


def resnet20() -> nn.Module:
    torch.manual_seed(0)
    return get_model("resnet20", dataset_info=DatasetInfo("images", 3 * 32 * 32, 10, (3, 32, 32)))


def quantised(name: str) -> nn.Module:
    """Return the network with its convolutions and linear layers in a format."""
    config: dict[str, object] = {"name": name}
    if "block_size" in {parameter.name for parameter in parameters(FORMATS[name])}:
        config |= {"data_in_block_size": 32, "weight_block_size": 32}
    args = {"by": "type", "conv2d": {"config": config}, "linear": {"config": config}}
    return quantize_transform_pass(annotated(resnet20(), torch.randn(2, 3, 32, 32)), args)[0].model
