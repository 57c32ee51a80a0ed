"""Quantised networks for the tests of hardware."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats import Format
from chop.hardware.program import Program, lower
from chop.hardware.resolve import fold_batch_norms, resolve_formats
from chop.hardware.resolve.layers import set_formats
from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from samples import LAB_CONFIG

EVERYTHING: dict[str, Any] = {"by": "type", "default": {"config": LAB_CONFIG}}
"""Quantises all ops to `integer(8, 4)`."""


def annotated(model: nn.Module, x: Tensor) -> MaseGraph:
    """Return the annotated graph of a model that is called with `x`."""
    graph = MaseGraph(model.eval())
    init_metadata_analysis_pass(graph, None)
    name = next(str(node.target) for node in graph.fx_graph.nodes if node.op == "placeholder")
    add_common_metadata_analysis_pass(graph, {"dummy_in": {name: x}})
    return graph


def quantized(model: nn.Module, x: Tensor, config: dict[str, Any] = EVERYTHING) -> MaseGraph:
    """Return a graph in number formats."""
    return quantize_transform_pass(annotated(model, x), config)[0]


def in_formats(model: nn.Module, x: Tensor, *formats: Mapping[str, Format]) -> MaseGraph:
    """Return a graph whose layers with weights have these formats, in their order."""
    graph = annotated(model, x)
    layers = [meta for meta in graph.annotated_metas() if "weight" in meta.args]
    for meta, own in zip(layers, formats, strict=True):
        set_formats(meta, own)
    return graph


def program_of(graph: MaseGraph) -> tuple[MaseGraph, Program]:
    """Return a copy of a graph that is ready for hardware, and its program."""
    graph = copy.deepcopy(graph)
    fold_batch_norms(graph)
    resolve_formats(graph)
    graph.model.recompile()
    return graph, lower(graph)


def num_differences(graph: MaseGraph, program: Program, x: Tensor) -> int:
    """Return how many results of fake quantisation and of the integer program differ."""
    with torch.no_grad():
        expected = graph.model(x).double().numpy()
    return int((program.real(program.quantize(x.numpy())) != expected).sum())


def with_random_norms(model: nn.Module) -> nn.Module:
    """Give batch norms statistics and weights that are not 0 and 1."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean)  # type: ignore[arg-type]
            nn.init.uniform_(layer.running_var, 0.5, 2)  # type: ignore[arg-type]
            if layer.affine:
                nn.init.uniform_(layer.weight, 0.5, 2)
                nn.init.normal_(layer.bias)
    return model


class SmallCNN(nn.Module):
    """Two convolutions, one of them in groups, with every kind of node that hardware supports."""

    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))
        self.second = nn.Conv2d(4, 6, 3, stride=2, groups=2)
        self.table = nn.Sigmoid()
        self.pool = pool
        self.last = nn.Linear(6, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        y = self.table(self.second(y + y.relu()))
        scores: Tensor = self.last(self.pool(y).flatten(1))
        return scores
