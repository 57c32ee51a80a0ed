"""Three linear layers with three widths of weights each: few enough to look at every point."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn

from chop.config.search import MetricTable
from chop.dataset import Rows
from chop.searching.evaluation import COST_RUNNERS
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import Problem
from chop.searching.space import Params, read_seeds
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


def made(model: nn.Module, **seeds: Any) -> Problem:
    """A problem whose labels are the answers of the model itself, so that rounding can only harm."""
    torch.manual_seed(1)
    features = torch.randn(300, 6)
    with torch.no_grad():
        rows = Rows(features, (4 * model(features)).argmax(dim=1))
    graph = annotated(model.eval(), x=features[:20])
    metas = graph.annotated_metas()
    costs = Costs(metas, [runner() for runner in COST_RUNNERS.values()], num_rows=20)
    return Problem(read_seeds(table(**seeds), metas), Evaluator(graph, "x", rows), costs, rows)


@pytest.fixture
def three() -> Problem:
    torch.manual_seed(0)
    return made(Three(), linear=WEIGHTS)


@pytest.fixture
def both() -> Problem:
    torch.manual_seed(0)
    return made(Three(), linear=BOTH)


def widths(point: Params) -> tuple[int, ...]:
    return tuple(int(str(label)) for label in point.values())


def cost(point: Params) -> int:
    """BitOPs of a point of `three`, by hand: multiplications x 8 bits of data x bits of weights."""
    macs = {"first": 48, "second": 128, "third": 24}
    return sum(macs[name.split("/")[0]] * 8 * int(str(label)) for name, label in point.items())


def all_points() -> list[dict[str, Any]]:
    names = [f"{name}/weight_width" for name in ("first", "second", "third")]
    return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product((2, 4, 8), repeat=3)]


def loss(problem: Problem, point: Params) -> float:
    return problem.measure(problem.space.configs(point))["loss"]
