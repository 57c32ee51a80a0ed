"""A small problem to search, and the configuration of a small search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.actions.train import train
from chop.config import SearchConfig, TrainConfig
from chop.config.search import MetricTable, SearchTable, SpaceSetup, SpaceTable, StrategyTable
from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.searching.evaluation import default_cost_runners
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space import read_space
from quick import one_thread_and_no_drawing  # noqa: F401
from samples import annotated

SEED: dict[str, Any] = {
    "name": ["integer"],
    "data_in_width": [4, 8],
    "data_in_frac_width": ["NA"],
    "weight_width": [2, 4, 8],
    "weight_frac_width": ["NA"],
    "bias_width": 8,
    "bias_frac_width": 4,
}


class Net(nn.Module):
    """Two linear layers around an in-place ReLU; nodes `first`, `relu`, `second`."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.relu, self.second = nn.Linear(6, 12), nn.ReLU(inplace=True), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.relu(self.first(x)))
        return result


def table(by: str = "type", **seeds: Mapping[str, Any]) -> SpaceTable:
    given: Any = by
    return SpaceTable(setup=SpaceSetup(given), seed={key: {"config": config} for key, config in seeds.items()})


@pytest.fixture
def rows() -> Rows:
    torch.manual_seed(1)
    return Rows(torch.randn(200, 6), torch.randint(3, (200,)))


@pytest.fixture
def graph(rows: Rows) -> MaseGraph:
    torch.manual_seed(0)
    return annotated(Net().eval(), x=rows.features[:10])


@pytest.fixture
def problem(graph: MaseGraph, rows: Rows) -> PTQProblem:
    metas = graph.annotated_metas()
    costs = Costs(metas, default_cost_runners())
    return PTQProblem(read_space(table(linear=SEED), metas), Evaluator(graph, "x", rows), costs)


TOY_LAYER = {
    "name": ["integer"],
    "data_in_width": [4, 8],
    "data_in_frac_width": ["auto"],
    "weight_width": [2, 4, 8],
    "weight_frac_width": ["NA", 3],
}


@pytest.fixture
def toy_search(train_config: TrainConfig) -> SearchConfig:
    """A search that measures on the test split, as `ch transform` does."""
    trained = train(train_config)
    layers = ("seq_blocks_0", "seq_blocks_4")
    strategy = StrategyTable(
        sw_runner={"basic_evaluation": {"data_loader": "test_dataloader"}},
        setup={"sampler": "random", "n_trials": 24},
        metrics={"accuracy": MetricTable(), "bitops": MetricTable()},
    )
    return SearchConfig(
        model="toy",
        dataset="toy_tiny",
        batch_size=64,
        accelerator="cpu",
        load_name=trained,
        project_dir=train_config.project_dir,
        search=SearchTable(SpaceTable(seed={name: {"config": TOY_LAYER} for name in layers}), strategy),
    )
