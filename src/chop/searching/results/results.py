"""What a search has found so far: the front, the best trial, and which choices matter."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator

from chop.searching.evaluation.objectives import Objective, Objectives, better_direction, is_cost
from chop.searching.space import Configs, Params, Space
from chop.searching.study.study import BASELINES, ORIGINAL, Study, TrialRecord

DEFAULT_MAX_DROP = 1.0
"""Percentage points of accuracy that the best configuration may lose if `--max-drop` is not given."""
DEFAULT_COST = "bitops"
"""The cost that is shown if no cost is among the objectives."""
MIN_TRIALS_FOR_IMPORTANCES = 20
"""With fewer trials, chance has more influence than any choice."""


@dataclass(frozen=True)
class Baseline:
    """A uniform configuration and its metrics."""

    label: str
    metrics: Mapping[str, float]
    configs: Configs


@dataclass(frozen=True)
class Results:
    """All trials so far, the uniform baselines, and the metrics of the original model."""

    objectives: Objectives
    original: Mapping[str, float]
    baselines: Sequence[Baseline]
    records: Sequence[TrialRecord]
    baseline_labels: Mapping[int, str] = field(default_factory=dict)
    """The labels of the trials that are uniform baselines, by their numbers."""

    @classmethod
    def of(cls, study: Study, objectives: Objectives, space: Space) -> Results:
        """Read the results of a study."""
        notes = study.read_note(BASELINES)
        baselines = [Baseline(each["label"], each["metrics"], each["configs"]) for each in notes]
        records = study.records()
        labels = _labels_of_baselines(records, baselines, space)
        return cls(objectives, study.read_note(ORIGINAL), baselines, records, labels)

    @cached_property
    def complete(self) -> list[TrialRecord]:
        """The trials that were measured completely, and whose objectives are all finite."""
        complete = [record for record in self.records if record.state == "complete"]
        names = [each.name for each in self.objectives.each]
        return [each for each in complete if all(math.isfinite(each.metrics[name]) for name in names)]

    @cached_property
    def front(self) -> list[TrialRecord]:
        """The Pareto-optimal trials, the most accurate first."""
        indices = self.objectives.front([each.metrics for each in self.complete])
        return sorted((self.complete[index] for index in indices), key=lambda each: -each.metrics["accuracy"])

    @cached_property
    def pareto_optimal_baselines(self) -> list[Baseline]:
        """The uniform baselines that no other trial equals or dominates."""

        def is_covered(baseline: Baseline) -> bool:
            others = (each for each in self.complete if self.baseline_labels.get(each.number) != baseline.label)
            return any(self.objectives.covers(each.metrics, baseline.metrics) for each in others)

        return [each for each in self.baselines if not is_covered(each)]

    @property
    def cost(self) -> Objective:
        """The first cost among the objectives, or bit operations."""
        costs = [each for each in self.objectives.each if is_cost(each.name)]
        return costs[0] if costs else Objective(DEFAULT_COST, better_direction(DEFAULT_COST))

    def nearest_baseline(self, metrics: Mapping[str, float]) -> Baseline | None:
        """Return the uniform baseline with the nearest cost; the most accurate one if there are several."""
        name = self.cost.name

        def distance(each: Baseline) -> tuple[float, float]:
            return abs(each.metrics[name] - metrics[name]), -each.metrics["accuracy"]

        return min(self.baselines, key=distance, default=None)

    def accuracy_drop(self, record: TrialRecord) -> float:
        """Return how many percentage points of accuracy a trial loses against the original model."""
        return 100 * (self.original["accuracy"] - record.metrics["accuracy"])

    def best(self, max_drop: float | None) -> TrialRecord | None:
        """Return the trial that `rule` describes; None if all trials lose more than `max_drop`."""
        if max_drop is None and self.objectives.sum_direction is not None:
            sign = 1 if self.objectives.sum_direction == "maximize" else -1
            return max(self.complete, key=lambda each: sign * self.objectives.values(each.metrics)[0], default=None)
        allowed = DEFAULT_MAX_DROP if max_drop is None else max_drop
        good = [each for each in self.complete if self.accuracy_drop(each) <= allowed + 1e-9]
        if good:
            return max(good, key=lambda each: (self.cost.gain(each.metrics), each.metrics["accuracy"]))
        return self.most_accurate if max_drop is None else None

    @property
    def most_accurate(self) -> TrialRecord | None:
        return max(self.complete, key=lambda each: each.metrics["accuracy"], default=None)

    def rule(self, max_drop: float | None) -> str:
        """Return in words how the best trial is chosen."""
        if max_drop is None and self.objectives.sum_direction is not None:
            return f"best sum of {', '.join(each.name for each in self.objectives.each)}"
        if max_drop is None and self.best(DEFAULT_MAX_DROP) is None:
            return f"highest accuracy: all trials lose more than {DEFAULT_MAX_DROP:g} percentage point"
        drop = DEFAULT_MAX_DROP if max_drop is None else max_drop
        extreme = "lowest" if self.cost.prefers_lower else "highest"
        points = f"{drop:g} percentage point{'' if drop == 1 else 's'}"
        return f"{extreme} {self.cost.name} of all trials that lose at most {points} of accuracy"

    def importances(self, metric: str) -> dict[str, float] | str:
        """Return the importance of each choice for a metric, or a sentence that says why it is unknown."""
        objective = Objective(metric, better_direction(metric))
        return _importances(
            [each.params for each in self.complete], [objective.gain(each.metrics) for each in self.complete]
        )


def _labels_of_baselines(
    records: Sequence[TrialRecord], baselines: Sequence[Baseline], space: Space
) -> dict[int, str]:
    labels = {_configs_key(each.configs): each.label for each in baselines}
    complete = (each for each in records if each.state == "complete")
    keys = ((each.number, _configs_key(space.configs(each.params))) for each in complete)
    return {number: labels[key] for number, key in keys if key in labels}


def _configs_key(configs: Configs) -> str:
    return json.dumps(configs, sort_keys=True)


def _importances(params: Sequence[Params], values: Sequence[float]) -> dict[str, float] | str:
    """Return the importance of each choice, the largest first, or a sentence that says why it is unknown.

    It is measured by PED-ANOVA (Watanabe et al., 2023): how much a choice contributes to the difference between the
    best trials, those with the largest values, and the others. Only choices that all trials make are compared.
    """
    finite = [(each, value) for each, value in zip(params, values, strict=True) if math.isfinite(value)]
    if len(finite) < MIN_TRIALS_FOR_IMPORTANCES:
        return (
            f"the importance of choices is not shown for {len(finite)} trials; "
            f"it needs at least {MIN_TRIALS_FOR_IMPORTANCES}"
        )
    common = [name for name in finite[0][0] if all(name in each for each, _ in finite)]
    choices = {name: tuple({each[name]: None for each, _ in finite}) for name in common}
    varied = {name: CategoricalDistribution(each) for name, each in choices.items() if len(each) > 1}
    if not varied:
        return "the importance of choices is not shown: no choice that all trials make differs between them"
    if len({value for _, value in finite}) == 1:
        return "the importance of choices is not shown: all trials are equally good"
    study = optuna.create_study(direction="maximize")
    study.add_trials(
        optuna.create_trial(params={name: each[name] for name in varied}, distributions={**varied}, value=value)
        for each, value in finite
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", UserWarning)  # a choice that all of the best trials share has no variance
        return optuna.importance.get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
