"""Trials and baselines whose order is easy to see."""

from __future__ import annotations

from typing import Any

from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.results.results import Baseline, Results
from chop.searching.study.study import State, TrialRecord

BOTH = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
SUM = Objectives(
    (Objective("accuracy", "maximize"), Objective("average_bitwidth", "minimize", 0.1)), sum_direction="maximize"
)


def metrics(accuracy: float, bitops: float, loss: float = 1.0) -> dict[str, float]:
    return {
        "accuracy": accuracy,
        "loss": loss,
        "bitops": bitops,
        "average_bitwidth": bitops / 100,
        "weight_bits": 10 * bitops,
    }


def trial(number: int, accuracy: float, bitops: float, state: State = "complete", **params: Any) -> TrialRecord:
    return TrialRecord(number, state, params, metrics(accuracy, bitops), None, 0.1)


def results(*records: TrialRecord, objectives: Objectives = BOTH, **other: Any) -> Results:
    uniform = [
        Baseline("integer, 8 bits", metrics(0.80, 1000), {}),
        Baseline("integer, 4 bits", metrics(0.6, 400), {}),
    ]
    return Results(objectives, metrics(0.81, 9000), uniform, records, **other)


FOUR = (trial(0, 0.80, 1000), trial(1, 0.806, 900), trial(2, 0.79, 500), trial(3, 0.78, 600))
