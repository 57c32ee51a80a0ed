"""Metrics of configurations, compared with copying, quantising and running the model."""

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
from chop.searching.evaluation import default_cost_runners
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.evaluation.transform_config import transform_config
from chop.searching.space import read_space
from samples import annotated
from searching.conftest import table


def measure_copy(graph: MaseGraph, configuration: dict[str, dict[str, Any]], rows: Rows) -> dict[str, float]:
    """Return accuracy, loss and cost by copying the graph and running the passes."""
    by_name = {name: {"config": config} for name, config in configuration.items()}
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


@pytest.mark.slow
def test_metrics_equal_those_of_a_quantised_copy(problem: PTQProblem, graph: MaseGraph, rows: Rows) -> None:
    all_params = list(problem.space.all_params())
    for params in random.Random(0).sample(all_params, 12):
        configuration = problem.space.configuration(params)
        found, expected = problem.measure(configuration), measure_copy(graph, configuration, rows)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, rel=1e-6), name


def test_original_metrics_are_those_of_the_model(problem: PTQProblem, graph: MaseGraph, rows: Rows) -> None:
    with torch.no_grad():
        logits = graph.model(rows.features.clone())
    found = problem.measure_original()
    assert found["accuracy"] == (logits.argmax(1) == rows.labels).double().mean().item()
    assert found["average_bitwidth"] == 32
    assert found["weight_bits"] == 32 * (6 * 12 + 12 + 12 * 3 + 3)
    assert found["bitops"] == 32 * 32 * (6 * 12 + 12 * 3)


def test_predictions_on_other_rows_are_those_of_a_quantised_copy(
    problem: PTQProblem, graph: MaseGraph, rows: Rows
) -> None:
    other = Rows(rows.features.flip(0) + 1, rows.labels)
    configuration = _first_configuration(problem)
    for given in (None, configuration):
        right = problem.correct(given)(other)
        accuracy = measure_copy(graph, given or {}, other)["accuracy"]
        assert right.dtype == torch.bool
        assert right.double().mean().item() == pytest.approx(accuracy)


def test_costs_equal_those_computed_by_hand(problem: PTQProblem) -> None:
    narrow = {
        name: {**config, "weight_width": 2, "data_in_width": 4}
        for name, config in _first_configuration(problem).items()
    }
    found = problem.measure(narrow)
    assert found["bitops"] == 2 * 4 * (6 * 12 + 12 * 3)
    assert found["weight_bits"] == 2 * (6 * 12 + 12 * 3) + 8 * (12 + 3)
    assert found["activation_bits"] == 4 * (6 + 12) + 32 * 12  # the ReLU keeps its float input
    weights, data = (2 * 108 + 8 * 15) / 123, (4 * 18 + 32 * 12) / 30
    assert found["average_bitwidth"] == pytest.approx((weights + data) / 2)
    assert found["memory_density"] == pytest.approx(32 / ((weights + data) / 2))


def _first_configuration(problem: PTQProblem) -> dict[str, dict[str, Any]]:
    return problem.space.configuration(next(problem.space.all_params()))


@pytest.mark.slow
def test_batches_and_cache_size_do_not_change_the_metrics(
    graph: MaseGraph, rows: Rows, problem: PTQProblem
) -> None:
    metas = graph.annotated_metas()
    costs = Costs(metas, default_cost_runners())
    several = PTQProblem(problem.space, Evaluator(graph, "x", rows, num_batches=7), costs)
    uncached = PTQProblem(problem.space, Evaluator(graph, "x", rows, num_batches=7, memory=0), costs)
    for params in list(problem.space.all_params())[::5]:
        configuration = problem.space.configuration(params)
        expected = problem.measure(configuration)
        assert several.measure(configuration) == pytest.approx(expected)
        assert uncached.measure(configuration) == pytest.approx(expected)


@pytest.mark.slow
def test_weights_are_rounded_once_per_format(problem: PTQProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    from chop.formats.integer import Integer

    shapes: list[tuple[int, ...]] = []
    rounded = Integer.quantize

    def count(self: Integer, x: torch.Tensor) -> torch.Tensor:
        shapes.append(tuple(x.shape))
        return rounded(self, x)

    monkeypatch.setattr(Integer, "quantize", count)
    for params in problem.space.all_params():
        problem.measure(problem.space.configuration(params))
    assert shapes.count((12, 6)) == 3  # three weight widths, independent of the data widths
    assert shapes.count((3, 12)) == 3


def test_an_evaluation_can_be_stopped_early(graph: MaseGraph, rows: Rows, problem: PTQProblem) -> None:
    metas = graph.annotated_metas()
    costs = Costs(metas, default_cost_runners())
    several = PTQProblem(problem.space, Evaluator(graph, "x", rows, num_batches=4), costs)
    seen: list[tuple[float, int]] = []

    def should_continue(costs: dict[str, float], num_rows: int, accuracy: float) -> bool:
        seen.append((costs["bitops"], num_rows))
        return num_rows < 100

    found = several.measure(_first_configuration(problem), should_continue)
    assert [rows for _, rows in seen] == [50, 100]
    assert found["num_rows"] == 100


def test_measuring_does_not_change_the_model(problem: PTQProblem, graph: MaseGraph) -> None:
    before = {key: value.clone() for key, value in graph.model.state_dict().items()}
    kinds = [type(module) for module in graph.model.modules()]
    problem.measure(_first_configuration(problem))
    assert [type(module) for module in graph.model.modules()] == kinds
    assert all(torch.equal(before[key], value) for key, value in graph.model.state_dict().items())


def test_a_configuration_becomes_options_of_transform(problem: PTQProblem) -> None:
    from chop.config import SearchConfig

    configuration = {**_first_configuration(problem), "second": {"name": None}}
    made = transform_config(SearchConfig(model="jsc-toy", dataset="jsc"), problem.space.units, configuration)
    assert made.passes == {"quantize": {"by": "name", "first": {"config": configuration["first"]}}}


class TiedLayers(nn.Module):
    """Layers `first` and `second` share one 6 x 6 weight; they have no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.tanh(self.first(x)))
        return y


class TiedCalls(nn.Module):
    """A layer and a function share one 6 x 6 weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.tanh(self.first(x)), self.first.weight)


@pytest.mark.parametrize("model", [TiedLayers, TiedCalls])
@pytest.mark.parametrize(
    ("widths", "bits"), [((4, 4), 4), ((4, 8), 4 + 8), ((None, 8), 32 + 8), ((None, None), 32)]
)
def test_a_shared_weight_is_stored_once_per_format(
    model: type[nn.Module], widths: tuple[int | None, int | None], bits: int, rows: Rows
) -> None:
    graph = annotated(model().eval(), x=rows.features[:10])
    metas = graph.annotated_metas()
    seed = {"name": ["integer", "NA"], "weight_width": [4, 8], "weight_frac_width": 2}
    costs = Costs(metas, default_cost_runners())
    problem = PTQProblem(read_space(table(linear=seed), metas), Evaluator(graph, "x", rows), costs)
    configuration = {
        unit.name: {"name": None} if width is None else _integers(width)
        for unit, width in zip(problem.space.units, widths, strict=True)
    }
    assert problem.costs(configuration)["weight_bits"] == 36 * bits
    assert problem.costs(configuration)["bitops"] == 36 * 32 * sum(width or 32 for width in widths)


def _integers(weight_width: int) -> dict[str, Any]:
    one = {"name": "integer", "weight_width": weight_width, "weight_frac_width": 2}
    return {**one, "data_in_width": 32, "data_in_frac_width": 16}
