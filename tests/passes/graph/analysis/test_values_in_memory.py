"""What analyses keep in memory: few rounded weights, and few outputs of nodes."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.nn.quantized import forget_rounded
from chop.nn.quantized.rounded_parameters import RoundedParameters
from chop.page.tensor_values import measure_tensors
from chop.passes.graph import (
    compare_graphs_analysis_pass,
    quantize_transform_pass,
    sensitivity_analysis_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.statistics.deviation import Deviation
from samples import annotated

NUM_LAYERS = 8
INT8 = {"name": "integer", "data_in_scale": "float", "weight_scale": "float", "bias_name": "float"}


class Alive:
    """How many of the tensors that were added are alive, at most and now."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Tensor]] = []
        self.most = 0

    def add(self, tensor: Tensor) -> Tensor:
        self._references.append(weakref.ref(tensor))
        self.most = max(self.most, self.now)
        return tensor

    @property
    def now(self) -> int:
        return sum(each() is not None for each in self._references)


@pytest.fixture
def rounded(monkeypatch: pytest.MonkeyPatch) -> Alive:
    """Return the rounded weights that layers keep."""
    alive, keep = Alive(), RoundedParameters.keep

    def keep_and_count(
        layer: RoundedParameters, name: str, number_format: Any, sources: Any, value: Tensor
    ) -> None:
        keep(layer, name, number_format, sources, alive.add(value) if name == "weight" else value)

    monkeypatch.setattr(RoundedParameters, "keep", keep_and_count)
    return alive


def chain() -> MaseGraph:
    layers = [each for _ in range(NUM_LAYERS) for each in (nn.Linear(4, 4), nn.Tanh())]
    return annotated(nn.Sequential(*layers), input=torch.randn(3, 4))


def quantised(graph: MaseGraph) -> MaseGraph:
    return quantize_transform_pass(deepcopy_mase_graph(graph), {"by": "type", "linear": {"config": INT8}})[0]


@pytest.mark.slow
def test_sensitivity_keeps_one_rounded_copy_of_the_weights(rounded: Alive) -> None:
    graph = quantised(chain())
    batches = [({"input": torch.randn(3, 4)}, torch.tensor([0, 1, 2])) for _ in range(2)]
    sensitivity_analysis_pass(graph, {"config": INT8, "labelled_batches": batches})
    assert NUM_LAYERS <= rounded.most <= NUM_LAYERS + 2
    forget_rounded(graph.model)
    assert rounded.now == 0


def test_comparing_graphs_keeps_only_values_that_are_not_yet_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    alive, graph = Alive(), chain()
    new, clone, add = quantised(graph), Tensor.clone, Deviation.add
    at_comparison = []
    monkeypatch.setattr(Tensor, "clone", lambda tensor: alive.add(clone(tensor)))

    def add_and_count(deviation: Deviation, before: Any, after: Any) -> None:
        at_comparison.append(alive.now)
        add(deviation, before, after)

    monkeypatch.setattr(Deviation, "add", add_and_count)
    compare_graphs_analysis_pass(graph, new, {"input": torch.randn(3, 4)})
    assert len(at_comparison) == 2 * NUM_LAYERS
    assert max(at_comparison) <= 3  # the inputs of both graphs, and one output


def test_measuring_tensors_keeps_the_rounded_weights_of_one_layer(rounded: Alive) -> None:
    measure_tensors(quantised(chain()), [{"input": torch.randn(3, 4)} for _ in range(2)], num_samples=6)
    assert rounded.most == 1
    assert rounded.now == 0


def test_the_fit_of_formats_keeps_no_values() -> None:
    values = measure_tensors(quantised(chain()), [{"input": torch.randn(3, 4)}], num_samples=3)
    limits = [each.limits for each in values.roundings.values() if each.limits is not None]
    assert len(limits) == 2 * NUM_LAYERS  # weights and inputs, with scales that follow the data
    assert all(each.follow_data for each in limits)
    assert sum(each.low.numel() + each.high.numel() for each in limits) == 2 * len(limits)
