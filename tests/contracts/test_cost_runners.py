"""What every cost runner of the search must satisfy: changes of single units add up to the change of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import in_formats
from chop.display.figures import KeyFigure
from chop.formats import Format
from chop.formats.integer import Integer
from chop.hardware.node_estimate import NodeEstimate, estimate_node
from chop.ir import NodeMeta
from chop.ir.graph.shared_layers import group_by_layer
from chop.searching.evaluation import COST_RUNNERS, CostRunner, cost_runners
from chop.searching.evaluation.cost_runners import Amounts
from chop.searching.evaluation.costs import Costs
from samples import Mixed, annotated

NUM_ROWS = 4
Formats = Mapping[str, Mapping[str, Format]]


class Chain(nn.Module):
    """Two linear layers and a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(torch.relu(self.first(x)))
        return y


class Branches(nn.Module):
    """A result with two readers, which are added."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        z: Tensor = torch.relu(self.left(y)) + self.right(y)
        return z


class CalledTwice(nn.Module):
    """One layer at two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(torch.relu(self.layer(x)))
        return y


class SharedWeight(nn.Module):
    """Two layers and a function that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.second(self.first(x)), self.first.weight)


class Functions(nn.Module):
    """Functions with and without a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight.t().t())
        return torch.matmul(y.t(), y)


MODELS = {model.__name__: model for model in (Chain, Branches, CalledTwice, SharedWeight, Functions, Mixed)}


def units_of(metas: Sequence[NodeMeta]) -> list[Formats]:
    """Return new formats for each unit, different for each of them."""
    groups = group_by_layer((meta, meta.module) for meta in metas if meta.quantizable)
    return [
        {meta.node.name: dict.fromkeys(meta.operands, Integer(3 + index, 1)) for meta in group}
        for index, group in enumerate(groups)
    ]


def check_additivity(runners: Sequence[CostRunner], model: type[nn.Module]) -> None:
    """Compare the sum of the changes of all units, for any number of units, with the cost of the changed graph."""
    torch.manual_seed(0)
    metas = annotated(model().eval(), x=torch.rand(NUM_ROWS, 6)).annotated_metas()
    costs, units = Costs(metas, runners), units_of(metas)
    assert units
    for end in range(len(units) + 1):
        formats = {name: each for unit in units[:end] for name, each in unit.items()}
        changed = [in_formats(m, formats[m.node.name]) if m.node.name in formats else m for m in metas]
        total = costs.total(costs.change(unit) for unit in units[:end])
        for runner in runners:
            expected = runner.summarize(runner.amounts(changed), NUM_ROWS)
            assert {name: total.pop(name) for name in expected} == pytest.approx(expected)
        assert not total


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_changes_of_units_add_up_to_the_change_of_the_graph(model: str) -> None:
    check_additivity([runner() for runner in COST_RUNNERS.values()], MODELS[model])


@pytest.mark.parametrize("name", COST_RUNNERS)
def test_a_runner_returns_the_metrics_that_it_declares(name: str) -> None:
    runner = COST_RUNNERS[name]()
    metas = annotated(Chain().eval(), x=torch.rand(NUM_ROWS, 6)).annotated_metas()
    metrics = runner.summarize(runner.amounts(metas), NUM_ROWS)
    assert list(metrics) == [figure.name for figure in runner.metrics]
    assert all(figure.better is not None for figure in runner.metrics)
    assert runner.additive.keys() | set(runner.additive.values()) <= metrics.keys()


@pytest.mark.slow
def test_runners_of_circuits_share_one_estimate_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = annotated(Chain().eval(), x=torch.rand(NUM_ROWS, 6)).annotated_metas()
    runners = [COST_RUNNERS[name]() for name in ("lut", "dsp", "latency")]
    alone = {key: value for each in runners for key, value in Costs(metas, [each]).total(()).items()}
    estimated: list[str] = []

    def recorded(meta: NodeMeta, strategy: Literal["unrolled", "folded"]) -> NodeEstimate:
        estimated.append(meta.node.name)
        return estimate_node(meta, strategy)

    monkeypatch.setattr(cost_runners, "estimate_node", recorded)
    assert Costs(metas, runners).total(()) == alone
    assert sorted(estimated) == sorted(meta.node.name for meta in metas)


class BitsSentToReaders(CostRunner):
    """A wrong runner: what a node contributes depends on the formats of the nodes that read its result."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KeyFigure("bits_sent", "bits sent", better="lower"),)

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        bits = {meta.node: sum(operand.format.bits for operand in meta.args.values()) for meta in metas}
        return (float(sum(bits.get(reader, 32.0) for meta in metas for reader in meta.node.users)),)

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {"bits_sent": totals[0]}


def test_a_runner_that_depends_on_readers_is_detected() -> None:
    with pytest.raises(AssertionError):
        check_additivity([BitsSentToReaders()], Branches)
