"""Three linear layers with three weight widths each: few enough to try every configuration."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from chop.config.search import MetricTable
from chop.dataset import Rows
from chop.searching.evaluation import default_cost_runners
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space import Params, read_space
from chop.searching.strategies import measuring
from samples import annotated
from searching.conftest import table

WEIGHTS: dict[str, Any] = {
    "name": ["integer"],
    "data_in_width": 8,
    "data_in_frac_width": ["auto"],
    "weight_width": [2, 4, 8],
    "weight_frac_width": ["auto"],
    "bias_width": 8,
    "bias_frac_width": 4,
}
BOTH = {**WEIGHTS, "data_in_width": [3, 5, 8]}
BITOPS = Objectives.read({"accuracy": MetricTable(), "bitops": MetricTable()})


class Three(nn.Module):
    """Nodes `first`, `second`, `third`, with 48, 128 and 24 multiplications."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.third(torch.relu(self.second(torch.relu(self.first(x)))))
        return result


def make_problem(model: nn.Module, **seeds: Any) -> PTQProblem:
    """Return a problem whose labels are the predictions of the model, so that rounding can only add errors."""
    torch.manual_seed(1)
    features = torch.randn(300, 6)
    with torch.no_grad():
        rows = Rows(features, (4 * model(features)).argmax(dim=1))
    graph = annotated(model.eval(), x=features[:20])
    metas = graph.annotated_metas()
    costs = Costs(metas, default_cost_runners())
    return PTQProblem(read_space(table(**seeds), metas), Evaluator(graph, "x", rows), costs)


@pytest.fixture
def three() -> PTQProblem:
    torch.manual_seed(0)
    return make_problem(Three(), linear=WEIGHTS)


@pytest.fixture
def both() -> PTQProblem:
    torch.manual_seed(0)
    return make_problem(Three(), linear=BOTH)


@pytest.fixture
def one_second_per_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock of the planning advance by a second with each measurement."""
    ticks = itertools.count()
    monkeypatch.setattr(measuring, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))


def widths(params: Params) -> tuple[int, ...]:
    return tuple(int(str(label)) for label in params.values())


def cost(params: Params) -> int:
    """Return the bit operations of `three`: multiplications x 8 data bits x weight bits."""
    macs = {"first": 48, "second": 128, "third": 24}
    return sum(macs[name.split("/")[0]] * 8 * int(str(label)) for name, label in params.items())


def all_params() -> list[dict[str, Any]]:
    names = [f"{name}/weight_width" for name in ("first", "second", "third")]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product((2, 4, 8), repeat=3)]


def loss(problem: PTQProblem, params: Params) -> float:
    return problem.measure(problem.space.configuration(params))["loss"]
