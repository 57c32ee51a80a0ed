"""Strategy `ilp`: configurations chosen by integer linear programming."""

from __future__ import annotations

import ctypes
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from chop.config import option
from chop.display.extras import missing_package
from chop.searching.space import Configuration
from chop.searching.strategies.base import register_strategy
from chop.searching.strategies.measuring import (
    Assignment,
    Candidate,
    CandidateCosts,
    Candidates,
    ErrorMeasure,
    MeasuringStrategy,
    PlanningTimeoutError,
    RatedCandidate,
    configuration_of,
    pareto_optimal,
)


@contextmanager
def silenced_stdout() -> Iterator[None]:
    """Discard everything that is printed to standard output, also by compiled code, which `sys.stdout` misses."""
    try:
        saved = os.dup(1)
    except OSError:  # there is no standard output
        yield
        return
    null = os.open(os.devnull, os.O_WRONLY)
    _flush()
    os.dup2(null, 1)
    try:
        yield
    finally:
        _flush()
        os.dup2(saved, 1)
        os.close(saved)
        os.close(null)


def _flush() -> None:
    """Write the buffers of Python and of C to where standard output points now."""
    if sys.stdout is not None:
        sys.stdout.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


logger = logging.getLogger(__name__)

MAX_UNSCREENED = 64
"""If a unit has more candidates, they are first measured on few rows, and only the Pareto-optimal ones on all."""
SCREENING_ROWS = 512
COEFFICIENT_SCALE = 1e3
"""About the largest coefficient of a program: the tolerances of the solver are absolute, most of them 1e-6."""
Table = Sequence[Sequence[RatedCandidate]]
"""The Pareto-optimal candidates of each unit, the cheapest first."""


@register_strategy("ilp")
@dataclass(frozen=True)
class Ilp(MeasuringStrategy):
    """For each of `n_trials` cost budgets, the configuration within it that has the smallest sum of errors.

    The budgets are a geometric sequence from the cost of the smallest error down to the lowest cost. The error of
    each candidate is measured with all other units unchanged, and the program assumes that these errors add up.
    That holds only near the configuration they were measured in, so they are measured again every few budgets,
    with all other units as the last program assigned them.
    """

    name: ClassVar[str] = "ilp"
    if_over: ClassVar[str] = ": some candidates were not measured"

    remeasure: int = option(8, least=1, help="budgets after which all candidates are measured again")

    def assignments(
        self, candidates: Candidates, costs: CandidateCosts, error: ErrorMeasure, max_trials: int
    ) -> Iterator[Assignment]:
        """Yield the best assignment within each budget."""
        candidates = _screened(candidates, costs, error.of_outputs(SCREENING_ROWS))
        current = costs.most_expensive(candidates)
        table = rate(candidates, current, costs, error)
        for number, budget in enumerate(budgets(table, costs.original, max_trials)):
            if number and number % self.remeasure == 0:
                with suppress(PlanningTimeoutError):  # then the earlier errors are used on
                    table = rate(candidates, current, costs, error)
            current = {each.candidate.unit: each.candidate for each in assign(table, budget - costs.original)}
            yield current


def _screened(candidates: Candidates, costs: CandidateCosts, error: ErrorMeasure) -> dict[str, list[Candidate]]:
    """Return the candidates without those of large units that are not Pareto-optimal on a few rows."""
    widest = configuration_of(costs.most_expensive(candidates))
    found = {}
    for name, of_unit in candidates.items():
        found[name] = list(of_unit)
        if len(of_unit) > MAX_UNSCREENED:
            found[name] = [each.candidate for each in _rate_unit(of_unit, widest, costs, error)]
        logger.info("%s: measuring %d of %d candidates of '%s'", Ilp.name, len(found[name]), len(of_unit), name)
    return found


def rate(
    candidates: Candidates, current: Assignment, costs: CandidateCosts, error: ErrorMeasure
) -> list[list[RatedCandidate]]:
    """Return the Pareto-optimal candidates of each unit, with all other units as in `current`."""
    return [_rate_unit(of_unit, configuration_of(current), costs, error) for of_unit in candidates.values()]


def _rate_unit(
    candidates: Sequence[Candidate], current: Configuration, costs: CandidateCosts, error: ErrorMeasure
) -> list[RatedCandidate]:
    before = error(current)
    rated = [
        RatedCandidate(each, costs(each), error({**current, each.unit: each.config}) - before)
        for each in candidates
    ]
    best = pareto_optimal(each for each in rated if math.isfinite(each.error))
    if not best:
        raise ValueError(f"the model's output is not finite for any config of '{candidates[0].unit}'")
    return best


def budgets(table: Table, original: float, count: int) -> list[float]:
    """Return costs of the model, from that of the smallest error down to the lowest, in equal ratios.

    For example 3 budgets from 400 down to 100 are 400, 200 and 100. `original` is the cost of the original model.
    """
    lowest = original + sum(row[0].cost for row in table)
    highest = original + sum(row[-1].cost for row in table)
    if highest <= lowest:
        return [lowest]
    ladder = np.geomspace(highest, lowest, count) if lowest > 0 else np.linspace(highest, lowest, count)
    return [float(budget) for budget in ladder]


def assign(table: Table, budget: float) -> list[RatedCandidate]:
    """Return one candidate per unit, with the smallest sum of errors whose sum of costs is within the budget."""
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import block_diag, csr_array
    except ImportError as error:
        raise ValueError(missing_package("scipy", "strategy 'ilp'")) from error

    flat = [each for row in table for each in row]
    lowest = sum(row[0].cost for row in table)
    span = sum(row[-1].cost for row in table) - lowest
    error_ranges = [row[0].error - row[-1].error for row in table if len(row) > 1]
    if not error_ranges or budget - lowest <= 1e-9 * abs(lowest):
        return [row[0] for row in table]
    costs = [COEFFICIENT_SCALE * (each.cost - row[0].cost) / span for row in table for each in row]
    errors = [COEFFICIENT_SCALE * (each.error - row[-1].error) / max(error_ranges) for row in table for each in row]
    one_per_unit = block_diag([np.ones((1, len(row))) for row in table], format="csr")
    within_budget = LinearConstraint(csr_array([costs]), -np.inf, COEFFICIENT_SCALE * (budget - lowest) / span)
    with silenced_stdout():  # HiGHS prints a line when it repairs a solution
        found = milp(
            errors,
            integrality=np.ones(len(flat)),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(one_per_unit, 1, 1), within_budget],
            options={"mip_rel_gap": 0.0},
        )
    assert found.success, f"the cheapest candidates are always within the budget: {found.message}"
    return [each for each, taken in zip(flat, found.x, strict=True) if taken > 0.5]
