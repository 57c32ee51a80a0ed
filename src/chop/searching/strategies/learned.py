"""Bit widths learned by gradient."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import Runner, bind_inputs
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.ptq import Problem
from chop.searching.space import Params
from chop.searching.strategies.base import Strategy, register_strategy
from chop.searching.strategies.error_tables import cost_metrics, distinct, thinned, untrained
from chop.searching.strategies.learned_widths import LearnedUnit, Widths, whole

logger = logging.getLogger(__name__)

NAME = "learned"


@register_strategy(NAME)
@dataclass(frozen=True)
class Learned(Strategy):
    """Widths of integers that follow the gradient of loss + beta x cost on training rows, as HGQ's do.

    One run traces a front: beta rises all the while, by the same factor at every step, and each set of widths that
    is passed is a point, rounded to what the space offers; of many, `n_trials` are tried. The weights of the model
    are not trained.
    """

    steps: int = 2000
    batch_size: int = 512
    learning_rate: float = 0.02
    """Bits that a width moves by in a step, at most about."""
    beta_from: float = 1e-3
    beta_to: float = 100.0
    """Weight of the cost, as a share of that of the widest configuration, against the loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"'{name}' must be at least 1, got {getattr(self, name)}")
        if self.learning_rate <= 0:
            raise ValueError(f"'learning_rate' must be above 0, got {self.learning_rate}")
        if not 0 < self.beta_from <= self.beta_to:
            raise ValueError(
                f"'beta_from' must be above 0 and at most 'beta_to', got {self.beta_from} and {self.beta_to}"
            )

    def plan(self, problem: Measurable, objectives: Objectives, seed: int) -> Sequence[Params]:
        problem = untrained(problem, NAME)
        units = [LearnedUnit(problem, unit) for unit in problem.space.units]
        if not any(unit.dimensions for unit in units):
            raise ValueError(f"strategy '{NAME}' learns widths, and the space offers none to choose from")
        if problem.training_rows is None:
            raise ValueError(f"strategy '{NAME}' needs training rows")
        model = _Model(problem, units, _Costs(problem, units, cost_metrics(objectives, NAME)))
        found: list[Params] = []
        for widths in self._learn(model, problem.training_rows, seed):
            pairs = zip(units, widths, strict=True)
            point = problem.space.params({unit.unit.name: unit.config(each) for unit, each in pairs})
            assert point is not None, "widths were rounded to what the space offers"
            found.append(point)
        points = distinct(found)
        logger.info("%s: %d configurations passed in %d steps", NAME, len(points), self.steps)
        return thinned(points, self.n_trials)

    def _learn(self, model: _Model, rows: Rows, seed: int) -> Iterator[list[Widths]]:
        """The widths after each step, as the space offers them."""
        random = torch.Generator().manual_seed(seed)
        widths, low, high = model.start()
        optimiser = torch.optim.Adam([widths], lr=self.learning_rate)
        growth = (self.beta_to / self.beta_from) ** (1 / max(1, self.steps - 1))
        for step in range(self.steps):
            chosen = torch.randint(len(rows.labels), (self.batch_size,), generator=random)
            batch = Rows(rows.features[chosen], rows.labels[chosen])
            widths.grad = model.gradient(widths, batch, self.beta_from * growth**step)
            optimiser.step()
            with torch.no_grad():
                widths.clamp_(low, high)
            yield model.allowed(widths)


class _Model:
    """A graph whose widths can be given as one row of numbers."""

    def __init__(self, problem: Problem, units: Sequence[LearnedUnit], costs: _Costs) -> None:
        self._graph, self._input = problem.evaluator.graph, problem.evaluator.input_name
        self._units, self._costs = units, costs
        self._sizes = [len(unit.dimensions) for unit in units]
        replaced = {node: new for unit in units for node, new in unit.replaced.items()}
        self._runner = _Replacing(self._graph, replaced)

    def start(self) -> tuple[Tensor, Tensor, Tensor]:
        """The largest widths, to be learned, and the least and the largest."""
        low = torch.tensor([width for unit in self._units for width in unit.narrowest], dtype=torch.float32)
        high = torch.tensor([width for unit in self._units for width in unit.widest], dtype=torch.float32)
        return high.clone().requires_grad_(), low, high

    def gradient(self, widths: Tensor, rows: Rows, beta: float) -> Tensor:
        for unit, own in zip(self._units, widths.split(self._sizes), strict=True):
            unit.set(own)
        with torch.enable_grad():
            logits = self._runner.run(*bind_inputs(self._graph, {self._input: rows.features}))
            (slope,) = torch.autograd.grad(F.cross_entropy(logits, rows.labels), widths)
        return slope.nan_to_num_() + beta * self._costs.gradient(self._whole(widths))

    def allowed(self, widths: Tensor) -> list[Widths]:
        return [unit.allowed(own) for unit, own in zip(self._units, self._whole(widths), strict=True)]

    def _whole(self, widths: Tensor) -> list[Widths]:
        return [whole(own) for own in widths.split(self._sizes)]


class _Costs:
    """The mean of some costs, each as a share of that of the widest configuration."""

    def __init__(self, problem: Problem, units: Sequence[LearnedUnit], metrics: Sequence[str]) -> None:
        self._units, self._metrics = units, metrics
        self._whole = problem.costs({unit.unit.name: unit.config(unit.widest) for unit in units})

    def gradient(self, widths: Sequence[Widths]) -> Tensor:
        """What a bit more of each width adds."""
        found = []
        for unit, own in zip(self._units, widths, strict=True):
            for place in range(len(own)):
                below, above = unit.around(own, place)
                more = self._share(unit.costs(above)) - self._share(unit.costs(below))
                found.append(more / (above[place] - below[place]))
        return torch.tensor(found)

    def _share(self, costs: Mapping[str, float]) -> float:
        shares = [costs[metric] / self._whole[metric] if self._whole[metric] else 0.0 for metric in self._metrics]
        return sum(shares) / len(shares)


class _Replacing(Runner):
    """Runs a graph, with gradients, and with other things in the place of some nodes."""

    def __init__(self, graph: MaseGraph, replaced: Mapping[fx.Node, Callable[..., Any]]) -> None:
        super().__init__(graph.model)
        self._replaced = replaced

    def run_node(self, n: fx.Node) -> Any:
        if n not in self._replaced:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return self._replaced[n](*args, **kwargs)
