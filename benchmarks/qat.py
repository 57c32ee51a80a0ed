"""How much of the accuracy that quantisation to 4 bits loses is recovered by quantisation-aware training."""

from __future__ import annotations

import logging

import torch
from torch import nn

from benchmarks.results import Result
from benchmarks.timing import one_thread
from chop.dataset import MaseDataModule, Splits
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

SUMMARY = (
    "jsc-s on generated jets, linear layers with 4-bit `integer` weights and activations: share of wrong test rows "
    "in float, after post-training quantisation, and after a few epochs of quantisation-aware training, which has "
    "to recover more than half of the accuracy that was lost."
)
_CONFIG = {
    "name": "integer",
    "data_in_width": 4,
    "data_in_frac_width": 2,
    "weight_width": 4,
    "weight_frac_width": 2,
    "bias_width": 8,
    "bias_frac_width": 4,
}


def run(quick: bool = False) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    data = MaseDataModule(name="jsc", batch_size=512, model_name="jsc-s", num_rows=2_000 if quick else 50_000)
    data.prepare_data()
    data.setup()
    torch.manual_seed(0)
    model = get_model("jsc-s", task="cls", dataset_info=data.dataset_info)
    with one_thread():
        train(model, data.splits, epochs=1 if quick else 12, learning_rate=3e-3)
        full = accuracy(model, data.splits)
        graph = quantized(model, data.splits.train.features[:8])
        rounded = accuracy(graph.model, data.splits)
        train(graph.model, data.splits, epochs=1 if quick else 5, learning_rate=1e-3)
        tuned = accuracy(graph.model, data.splits)
    left = (full - tuned) / (full - rounded) if full > rounded else 0.0
    return [
        Result("wrong in float", 100 * (1 - full), float("inf"), "%"),
        Result("wrong after post-training quantisation to 4 bits", 100 * (1 - rounded), float("inf"), "%"),
        Result("wrong after 5 epochs of quantisation-aware training", 100 * (1 - tuned), float("inf"), "%"),
        Result("share of the lost accuracy that is not recovered", left, 0.5, "x the loss"),
    ]


def quantized(model: nn.Module, rows: torch.Tensor) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": rows}})
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": _CONFIG}})
    return graph


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
        correct = model(splits.test.features).argmax(1) == splits.test.labels
    return float(correct.double().mean())
