"""Configurations allotted by integer linear programming."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.space import Params
from chop.searching.space.space import Configs
from chop.searching.strategies.base import register_strategy
from chop.searching.strategies.error_tables import (
    Choice,
    Chosen,
    Harm,
    HarmStrategy,
    Price,
    Rated,
    choices_of,
    configs_of,
    cost_metrics,
    distinct,
    point_of,
    unbeaten,
    untrained,
)
from chop.tools.stdout import quiet

logger = logging.getLogger(__name__)

NAME = "ilp"
FEW = 64
"""Configurations of a unit that are all measured; of more, those that do badly on `GLANCE` rows are not."""
GLANCE = 512
SCALE = 1e3
"""The largest number of a programme, or nearly so: the solver's tolerances are absolute, most of them 1e-6."""
Choices = Mapping[str, Sequence[Choice]]
"""What each unit may be."""


@register_strategy(NAME)
@dataclass(frozen=True)
class Ilp(HarmStrategy):
    """For each of `n_trials` budgets, the configurations that together harm the model least within it.

    Budgets are a geometric ladder down from the cost of least harm. The harm of each configuration of a unit is
    measured by itself, and the programme takes it to add up; as that holds near what was measured only, it is
    measured anew every few budgets, with all other units as they were allotted last.
    """

    remeasure: int = 8
    """Budgets after which all configurations are measured anew."""

    def plan(self, problem: Measurable, objectives: Objectives, seed: int) -> Sequence[Params]:
        problem = untrained(problem, NAME)
        metrics = cost_metrics(objectives, NAME)
        choices = choices_of(problem, NAME)
        harm, glance = Harm(problem, self.harm), Harm(problem, "output", GLANCE)
        found: list[Params] = []
        for metric in metrics:
            price = Price(problem, metric)
            promising = _promising(choices, price, glance)
            found += [point_of(chosen) for chosen in self._ladder(promising, price, harm, len(metrics))]
        return distinct(found)

    def _ladder(self, choices: Choices, price: Price, harm: Harm, share: int) -> Iterator[dict[str, Choice]]:
        chosen = price.widest(choices)
        table = rated(choices, chosen, price, harm)
        for number, budget in enumerate(budgets(table, price.plain, max(1, self.n_trials // share))):
            if number and number % self.remeasure == 0:
                table = rated(choices, chosen, price, harm)
            chosen = {each.choice.unit: each.choice for each in allot(table, budget - price.plain)}
            yield chosen


def _promising(choices: Choices, price: Price, glance: Harm) -> dict[str, list[Choice]]:
    """Of units with many choices, only those that none beats on a few rows."""
    widest = price.widest(choices)
    found = {}
    for name, some in choices.items():
        found[name] = list(some)
        if len(some) > FEW:
            found[name] = [each.choice for each in _rated_unit(some, configs_of(widest), price, glance)]
        logger.info("%s: '%s' has %d configurations, %d are measured", NAME, name, len(some), len(found[name]))
    return found


def rated(choices: Choices, around: Chosen, price: Price, harm: Harm) -> list[list[Rated]]:
    """For each unit the choices that none of its others beats, with the rest of the model as it is in `around`."""
    return [_rated_unit(some, configs_of(around), price, harm) for some in choices.values()]


def _rated_unit(some: Sequence[Choice], around: Configs, price: Price, harm: Harm) -> list[Rated]:
    before = harm(around)
    found = [Rated(each, price(each), harm({**around, each.unit: each.config}) - before) for each in some]
    best = unbeaten(each for each in found if math.isfinite(each.harm))
    if not best:
        raise ValueError(f"the model gives no numbers, whichever configuration '{some[0].unit}' has")
    return best


def budgets(table: Sequence[Sequence[Rated]], plain: float, count: int) -> list[float]:
    """Costs of the whole model, from that of least harm down to the least, each the same factor below the last."""
    least = plain + sum(row[0].cost for row in table)
    most = plain + sum(row[-1].cost for row in table)
    if most <= least:
        return [least]
    ladder = np.geomspace(most, least, count) if least > 0 else np.linspace(most, least, count)
    return [float(budget) for budget in ladder]


def allot(table: Sequence[Sequence[Rated]], budget: float) -> list[Rated]:
    """One of each row, together within the budget and of the least harm; rows as `unbeaten` gives them."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import block_diag, csr_array
    except ImportError as error:
        raise ValueError(f"strategy '{NAME}' needs scipy: pip install 'chop[search]'") from error

    flat = [each for row in table for each in row]
    least = sum(row[0].cost for row in table)
    span = sum(row[-1].cost for row in table) - least
    ranges = [row[0].harm - row[-1].harm for row in table if len(row) > 1]
    if not ranges or budget - least <= 1e-9 * abs(least):
        return [row[0] for row in table]
    costs = [SCALE * (each.cost - row[0].cost) / span for row in table for each in row]
    harms = [SCALE * (each.harm - row[-1].harm) / max(ranges) for row in table for each in row]
    one_each = block_diag([np.ones((1, len(row))) for row in table], format="csr")
    within = LinearConstraint(csr_array([costs]), -np.inf, SCALE * (budget - least) / span)
    with quiet():  # HiGHS has left a line in that it prints when it mends a solution
        found = milp(
            harms,
            integrality=np.ones(len(flat)),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(one_each, 1, 1), within],
            options={"mip_rel_gap": 0.0},
        )
    assert found.success, f"one of each row always fits: {found.message}"
    return [each for each, taken in zip(flat, found.x, strict=True) if taken > 0.5]
