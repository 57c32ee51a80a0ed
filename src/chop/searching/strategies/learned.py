"""Strategy `learned`: bit widths learned by gradient descent."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.config import SearchConfig
from chop.dataset import Rows
from chop.ir.graph.interpreter import bind_inputs
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem, UnitwiseProblem
from chop.searching.space import Params
from chop.searching.space.dimension import distinct_params
from chop.searching.strategies.base import Strategy, register_strategy
from chop.searching.strategies.candidates import (
    cost_objectives,
    evenly_spaced,
)
from chop.searching.strategies.learned_front import LEARNED, STEP, LearnedFrontProblem
from chop.searching.strategies.learned_layers import Granularity
from chop.searching.strategies.learned_training import (
    ReplacingInterpreter,
    WidthTrainingOptions,
    steps_of_trials,
)
from chop.searching.strategies.learned_widths import LearnedUnit, Widths, round_widths

logger = logging.getLogger(__name__)

NAME = "learned"


@register_strategy(NAME)
@dataclass(frozen=True)
class Learned(Strategy):
    """Widths of integer formats that follow the gradient of loss + beta x cost on training rows, as in HGQ.

    One run traces a front: beta rises by the same factor at every step, and each configuration on the way, rounded
    to widths that the space offers, is recorded. If there are more than `n_trials`, evenly spaced ones become
    trials. The weights of the model are not trained.

    With a finer `granularity` than "tensor", weights are trained together with a width per channel or element,
    which becomes 0 where a weight is pruned. The space says where to start; the graphs after evenly spaced steps
    are trials, whose weights are trained further with these widths.
    """

    granularity: Granularity = "tensor"
    """What has a width: "tensor", "channel" (of weights; of the inputs of convolutions) or "element"."""
    weight_learning_rate: float = 2e-3
    """The learning rate of the weights, if they are trained."""
    decay_to: float = 1.0
    """Share of the learning rates that is left at the last step, along half a cosine, if weights are trained."""
    finetune_steps: int = 400
    """Steps that train the weights of each trial further, with its widths, if weights are trained."""

    steps: int = 2000
    batch_size: int = 512
    learning_rate: float = 0.02
    """About the largest change of a width per step, in bits."""
    beta_from: float = 1e-3
    beta_to: float = 100.0
    """Weight of the cost, relative to the cost of the widest configuration, against the loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"'{name}' must be at least 1, got {getattr(self, name)}")
        if self.finetune_steps < 0:
            raise ValueError(f"'finetune_steps' must be at least 0, got {self.finetune_steps}")
        for name in ("learning_rate", "weight_learning_rate"):
            if getattr(self, name) <= 0:
                raise ValueError(f"'{name}' must be above 0, got {getattr(self, name)}")
        if not 0 < self.decay_to <= 1:
            raise ValueError(f"'decay_to' must be above 0 and at most 1, got {self.decay_to}")
        if not 0 < self.beta_from <= self.beta_to:
            raise ValueError(
                f"'beta_from' must be above 0 and at most 'beta_to', got {self.beta_from} and {self.beta_to}"
            )

    @property
    def trains_weights(self) -> bool:
        """Whether weights are trained, so that the problem is a `LearnedFrontProblem`."""
        return self.granularity != "tensor"

    def own_problem(
        self,
        config: SearchConfig,
        experiment: Experiment,
        rows: Rows,
        runners: Sequence[CostRunner],
        objectives: Objectives,
    ) -> Problem | None:
        if not self.trains_weights:
            return None
        options = self.training_options(objectives, config.seed)
        return LearnedFrontProblem(config, experiment, rows, runners, options)

    def training_options(self, objectives: Objectives, seed: int) -> WidthTrainingOptions:
        """Return how weights and widths are trained; look-up tables are the cost if they are an objective."""
        return WidthTrainingOptions(
            granularity=self.granularity,
            cost="lut" if any(each.name == "lut" for each in objectives.items) else "ebops",
            steps=self.steps,
            batch_size=self.batch_size,
            width_learning_rate=self.learning_rate,
            weight_learning_rate=self.weight_learning_rate,
            beta_from=self.beta_from,
            beta_to=self.beta_to,
            decay_to=self.decay_to,
            finetune_steps=self.finetune_steps,
            seed=seed,
        )

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        if self.trains_weights:
            return [{f"{LEARNED}/{STEP}": step} for step in steps_of_trials(self.steps, self.n_trials)]
        unitwise = problem.as_unitwise()
        units = [LearnedUnit(unitwise, unit) for unit in unitwise.space.units]
        if not any(unit.dimensions for unit in units):
            raise ValueError(f"strategy '{NAME}' learns widths, but the space offers no choice of widths")
        if unitwise.training_rows is None:
            raise ValueError(f"strategy '{NAME}' needs training rows")
        costs = _RelativeCost(unitwise, units, cost_objectives(objectives, NAME))
        model = _ModelWithLearnedWidths(unitwise, units, costs)
        found: list[Params] = []
        for widths in self._learn(model, unitwise.training_rows, seed):
            pairs = zip(units, widths, strict=True)
            params = unitwise.space.params({unit.unit.name: unit.config(each) for unit, each in pairs})
            assert params is not None, "widths were rounded to those that the space offers"
            found.append(params)
        distinct = distinct_params(found)
        logger.info("%s: %d different configurations in %d steps", NAME, len(distinct), self.steps)
        return evenly_spaced(distinct, self.n_trials)

    def _learn(self, model: _ModelWithLearnedWidths, rows: Rows, seed: int) -> Iterator[list[Widths]]:
        """Yield the widths of all units after each step, rounded to those that the space offers."""
        random = torch.Generator().manual_seed(seed)
        widths, lowest, highest = model.initial_widths()
        optimizer = torch.optim.Adam([widths], lr=self.learning_rate)
        growth = (self.beta_to / self.beta_from) ** (1 / max(1, self.steps - 1))
        for step in range(self.steps):
            chosen = torch.randint(len(rows.labels), (self.batch_size,), generator=random)
            batch = Rows(rows.features[chosen], rows.labels[chosen])
            widths.grad = model.gradient(widths, batch, self.beta_from * growth**step)
            optimizer.step()
            with torch.no_grad():
                widths.clamp_(lowest, highest)
            yield model.nearest_offered(widths)


class _ModelWithLearnedWidths:
    """A graph whose widths are one vector."""

    def __init__(self, problem: UnitwiseProblem, units: Sequence[LearnedUnit], costs: _RelativeCost) -> None:
        self._graph, self._arguments = problem.evaluator.graph, problem.evaluator.arguments
        self._units, self._costs = units, costs
        self._sizes = [len(unit.dimensions) for unit in units]
        replacements = {node: new for unit in units for node, new in unit.replacements.items()}
        self._runner = ReplacingInterpreter(self._graph, replacements)

    def initial_widths(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the widths to learn, which start at their largest values, and their lower and upper limits."""
        lowest = torch.tensor([width for unit in self._units for width in unit.narrowest], dtype=torch.float32)
        highest = torch.tensor([width for unit in self._units for width in unit.widest], dtype=torch.float32)
        return highest.clone().requires_grad_(), lowest, highest

    def gradient(self, widths: Tensor, rows: Rows, beta: float) -> Tensor:
        """Return the gradient of loss + beta x cost with respect to the widths."""
        for unit, of_unit in zip(self._units, widths.split(self._sizes), strict=True):
            unit.set_widths(of_unit)
        with torch.enable_grad():
            logits = self._runner.run(*bind_inputs(self._graph, self._arguments(rows.features)))
            (gradient,) = torch.autograd.grad(F.cross_entropy(logits, rows.labels), widths)
        return gradient.nan_to_num_() + beta * self._costs.gradient(self._rounded(widths))

    def nearest_offered(self, widths: Tensor) -> list[Widths]:
        """Return the widths of each unit, rounded to those that the space offers."""
        pairs = zip(self._units, self._rounded(widths), strict=True)
        return [unit.nearest_offered(of_unit) for unit, of_unit in pairs]

    def _rounded(self, widths: Tensor) -> list[Widths]:
        return [round_widths(of_unit) for of_unit in widths.split(self._sizes)]


class _RelativeCost:
    """The mean of some costs, each relative to that of the widest configuration."""

    def __init__(self, problem: UnitwiseProblem, units: Sequence[LearnedUnit], metrics: Sequence[str]) -> None:
        self._units, self._metrics = units, metrics
        self._widest = problem.costs({unit.unit.name: unit.config(unit.widest) for unit in units})

    def gradient(self, widths: Sequence[Widths]) -> Tensor:
        """Return what one more bit of each width adds."""
        found = []
        for unit, of_unit in zip(self._units, widths, strict=True):
            for index in range(len(of_unit)):
                below, above = unit.neighbours(of_unit, index)
                added = self._relative(unit.costs(above)) - self._relative(unit.costs(below))
                found.append(added / (above[index] - below[index]))
        return torch.tensor(found)

    def _relative(self, costs: Mapping[str, float]) -> float:
        shares = [costs[name] / self._widest[name] if self._widest[name] else 0.0 for name in self._metrics]
        return sum(shares) / len(shares)
