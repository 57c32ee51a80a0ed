"""Metrics of configurations, against copying, quantising and running everything."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.passes.graph import (
    calculate_avg_bits_mg_analysis_pass,
    count_bitops_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.searching.evaluation import COST_RUNNERS
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.ptq import Problem
from chop.searching.results.recipe import transform_config
from chop.searching.space import read_seeds
from samples import annotated
from searching.conftest import table


def plain_way(graph: MaseGraph, configs: dict[str, dict[str, Any]], rows: Rows) -> dict[str, float]:
    """Accuracy, loss and cost by copying the graph and running the passes."""
    by_name = {name: {"config": config} for name, config in configs.items()}
    changed, _ = quantize_transform_pass(deepcopy_mase_graph(graph), {"by": "name", **by_name})
    with torch.no_grad():
        logits = changed.model(rows.features.clone())
    changed, bits = calculate_avg_bits_mg_analysis_pass(changed)
    changed, counted = count_bitops_analysis_pass(changed, {"convention": "bops"})
    return {
        "accuracy": (logits.argmax(1) == rows.labels).double().mean().item(),
        "loss": F.cross_entropy(logits.double(), rows.labels).item(),
        "average_bitwidth": (bits["w_avg_bit"] + bits["data_avg_bit"]) / 2,
        "bitops": counted["total_bitops"] / 10,
    }


def test_metrics_are_those_of_the_plain_way(problem: Problem, graph: MaseGraph, rows: Rows) -> None:
    points = list(problem.space.points())
    for point in random.Random(0).sample(points, 12):
        configs = problem.space.configs(point)
        found, expected = problem.measure(configs), plain_way(graph, configs, rows)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-6), name


def test_plain_metrics_are_those_of_the_model(problem: Problem, graph: MaseGraph, rows: Rows) -> None:
    with torch.no_grad():
        logits = graph.model(rows.features.clone())
    found = problem.plain()
    assert found["accuracy"] == (logits.argmax(1) == rows.labels).double().mean().item()
    assert found["average_bitwidth"] == 32
    assert found["weight_bits"] == 32 * (6 * 12 + 12 + 12 * 3 + 3)
    assert found["bitops"] == 32 * 32 * (6 * 12 + 12 * 3)


def test_costs_by_hand(problem: Problem) -> None:
    narrow = {name: {**config, "weight_width": 2, "data_in_width": 4} for name, config in _any(problem).items()}
    found = problem.measure(narrow)
    assert found["bitops"] == 2 * 4 * (6 * 12 + 12 * 3)
    assert found["weight_bits"] == 2 * (6 * 12 + 12 * 3) + 8 * (12 + 3)
    assert found["activation_bits"] == 4 * (6 + 12) + 32 * 12  # the ReLU keeps its float input
    weights, data = (2 * 108 + 8 * 15) / 123, (4 * 18 + 32 * 12) / 30
    assert found["average_bitwidth"] == pytest.approx((weights + data) / 2)
    assert found["memory_density"] == pytest.approx(32 / ((weights + data) / 2))


def _any(problem: Problem) -> dict[str, dict[str, Any]]:
    return problem.space.configs(next(problem.space.points()))


def test_batches_and_memory_change_nothing(graph: MaseGraph, rows: Rows, problem: Problem) -> None:
    metas = graph.annotated_metas()
    costs = Costs(metas, [runner() for runner in COST_RUNNERS.values()], num_rows=10)
    several = Problem(problem.space, Evaluator(graph, "x", rows, num_batches=7), costs)
    nothing = Problem(problem.space, Evaluator(graph, "x", rows, num_batches=7, memory=0), costs)
    for point in list(problem.space.points())[::5]:
        configs = problem.space.configs(point)
        expected = problem.measure(configs)
        assert several.measure(configs) == pytest.approx(expected)
        assert nothing.measure(configs) == pytest.approx(expected)


def test_weights_are_rounded_once_for_each_format(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    from chop.formats.integer import Integer

    shapes: list[tuple[int, ...]] = []
    rounded = Integer.quantize

    def count(self: Integer, x: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(x.shape))
        return rounded(self, x)

    monkeypatch.setattr(Integer, "quantize", count)
    for point in problem.space.points():
        problem.measure(problem.space.configs(point))
    assert shapes.count((12, 6)) == 3  # three widths of weights, whatever the data are in
    assert shapes.count((3, 12)) == 3


def test_an_evaluation_can_be_ended_early(graph: MaseGraph, rows: Rows, problem: Problem) -> None:
    metas = graph.annotated_metas()
    costs = Costs(metas, [runner() for runner in COST_RUNNERS.values()], num_rows=10)
    several = Problem(problem.space, Evaluator(graph, "x", rows, num_batches=4), costs)
    seen: list[tuple[float, int]] = []

    def judge(costs: dict[str, float], num_rows: int, accuracy: float) -> bool:
        seen.append((costs["bitops"], num_rows))
        return num_rows < 100

    found = several.measure(_any(problem), judge)
    assert [rows for _, rows in seen] == [50, 100]
    assert found["num_rows"] == 100


def test_the_model_is_left_as_it_was(problem: Problem, graph: MaseGraph) -> None:
    before = {key: value.clone() for key, value in graph.model.state_dict().items()}
    kinds = [type(module) for module in graph.model.modules()]
    problem.measure(_any(problem))
    assert [type(module) for module in graph.model.modules()] == kinds
    assert all(torch.equal(before[key], value) for key, value in graph.model.state_dict().items())


def test_a_configuration_becomes_a_transform(problem: Problem) -> None:
    from chop.config import SearchConfig

    configs = {**_any(problem), "second": {"name": None}}
    made = transform_config(SearchConfig(model="jsc-toy", dataset="jsc"), problem.space.units, configs)
    assert made.passes == {"quantize": {"by": "name", "first": {"config": configs["first"]}}}


class TiedLayers(nn.Module):
    """Layers `first` and `second` hold the same 6 x 6 weight, and no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.tanh(self.first(x)))
        return y


class TiedCalls(nn.Module):
    """A layer and a function use the same 6 x 6 weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.first(x)), self.first.weight)


@pytest.mark.parametrize("model", [TiedLayers, TiedCalls])
@pytest.mark.parametrize(
    ("widths", "bits"), [((4, 4), 4), ((4, 8), 4 + 8), ((None, 8), 32 + 8), ((None, None), 32)]
)
def test_a_weight_that_layers_share_is_kept_once_in_each_format(
    model: type[nn.Module], widths: tuple[int | None, int | None], bits: int, rows: Rows
) -> None:
    graph = annotated(model().eval(), x=rows.features[:10])
    metas = graph.annotated_metas()
    seed = {"name": ["integer", "NA"], "weight_width": [4, 8], "weight_frac_width": 2}
    costs = Costs(metas, [runner() for runner in COST_RUNNERS.values()], num_rows=10)
    problem = Problem(read_seeds(table(linear=seed), metas), Evaluator(graph, "x", rows), costs)
    configs = {
        unit.name: {"name": None} if width is None else _integers(width)
        for unit, width in zip(problem.space.units, widths, strict=True)
    }
    assert problem.costs(configs)["weight_bits"] == 36 * bits
    assert problem.costs(configs)["bitops"] == 36 * 32 * sum(width or 32 for width in widths)


def _integers(weight_width: int) -> dict[str, Any]:
    one = {"name": "integer", "weight_width": weight_width, "weight_frac_width": 2}
    return {**one, "data_in_width": 32, "data_in_frac_width": 16}
