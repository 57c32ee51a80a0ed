"""What a search has found so far: the front, the best trial, and which choices matter."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import optuna
from optuna.distributions import CategoricalDistribution

from chop.display.numbers import counted, percentage_points
from chop.searching.evaluation.objectives import (
    DEFAULT_COST,
    Objective,
    Objectives,
    better_direction,
    is_cost,
    known_metrics,
    pareto_front,
    weakly_dominates,
)
from chop.searching.space import Configuration, Params, Space
from chop.searching.space.dimension import equality_key
from chop.searching.space.space import METHOD, MODEL, TRAINING
from chop.searching.study.study import BASELINES, ORIGINAL, Study, TrialRecord
from chop.training.budget import Budget, Choice, Correct

DEFAULT_MAX_DROP = 1.0
"""Percentage points of accuracy that the best configuration may lose if `--max-drop` is not given."""
DROP_TOLERANCE = 1e-9
"""Percentage points by which a drop may exceed the limit because of floating-point rounding."""
MIN_TRIALS_FOR_IMPORTANCES = 20
"""With fewer trials, chance has more influence than any choice."""
MAX_TRIALS_FOR_IMPORTANCES = 400


Importances = dict[str, dict[str, float] | str]
"""For each metric the importance of each choice, or a sentence that says why it is unknown."""


@dataclass(frozen=True)
class Baseline:
    """A uniform configuration and its metrics."""

    label: str
    metrics: Mapping[str, float]
    configuration: Configuration


class BestTrial(NamedTuple):
    """The best trial, if there is one, and the rule that chose it, in words."""

    record: TrialRecord | None
    rule: str


@dataclass(frozen=True)
class Results:
    """All trials so far, the uniform baselines, and the metrics of the original model."""

    objectives: Objectives
    original: Mapping[str, float]
    baselines: Sequence[Baseline]
    records: Sequence[TrialRecord]
    baseline_labels: Mapping[int, str] = field(default_factory=dict)
    """The labels of the trials that are uniform baselines, by their numbers."""
    task: str = "cls"
    known_importances: Importances | None = None
    """What `importances_of_shown_metrics` returns, if it was computed before."""
    is_checked: bool = False
    """Whether trials were checked on rows held back; then `choice` is the one that keeps the budget, or None."""
    choice: Choice[TrialRecord] | None = None

    @classmethod
    def of(cls, study: Study, objectives: Objectives, space: Space, task: str = "cls") -> Results:
        """Read the results of a study of a model for this task."""
        notes = study.read_note(BASELINES)
        baselines = [Baseline(each["label"], each["metrics"], each["configs"]) for each in notes]
        records = study.records()
        labels = _labels_of_baselines(records, baselines, space)
        return cls(objectives, study.read_note(ORIGINAL), baselines, records, labels, task)

    @cached_property
    def complete(self) -> list[TrialRecord]:
        """The trials that were measured completely, and whose objectives are all finite."""
        complete = [record for record in self.records if record.state == "complete"]
        names = [each.name for each in self.objectives.items]
        return [each for each in complete if all(math.isfinite(each.metrics[name]) for name in names)]

    @cached_property
    def front(self) -> list[TrialRecord]:
        """The Pareto-optimal trials, the most accurate first."""
        front = pareto_front(self.complete, lambda each: self.objectives.gains(each.metrics))
        return sorted(front, key=lambda each: -each.metrics["accuracy"])

    @cached_property
    def pareto_optimal_baselines(self) -> list[Baseline]:
        """The uniform baselines that no other trial equals or dominates."""
        gains = self.objectives.gains
        trials = [(self.baseline_labels.get(each.number), gains(each.metrics)) for each in self.complete]
        found = []
        for baseline in self.baselines:
            own = gains(baseline.metrics)
            if not any(label != baseline.label and weakly_dominates(other, own) for label, other in trials):
                found.append(baseline)
        return found

    @property
    def baselines_outside_the_space(self) -> list[Baseline]:
        """The Pareto-optimal baselines that are not trials, because the space does not offer their widths."""
        trials = set(self.baseline_labels.values())
        return [each for each in self.pareto_optimal_baselines if each.label not in trials]

    @cached_property
    def options(self) -> list[tuple[str, str]]:
        """The choices that are not formats, such as a learning rate or the method: their parts and names."""
        names = dict.fromkeys(name for record in self.complete for name in record.params)
        pairs = (name.partition("/") for name in names)
        return [(part, name) for part, _, name in pairs if part in (TRAINING, MODEL, METHOD)]

    @property
    def cost(self) -> Objective:
        """The first cost among the objectives, or bit operations."""
        costs = [each for each in self.objectives.items if is_cost(each.name)]
        return costs[0] if costs else Objective(DEFAULT_COST, better_direction(DEFAULT_COST))

    def nearest_baseline(self, metrics: Mapping[str, float]) -> Baseline | None:
        """Return the uniform baseline with the nearest cost; the most accurate one if there are several."""
        name = self.cost.name
        return min(
            self.baselines,
            key=lambda each: (abs(each.metrics[name] - metrics[name]), -each.metrics["accuracy"]),
            default=None,
        )

    def accuracy_drop(self, record: TrialRecord) -> float:
        """Return how many percentage points of accuracy a trial loses against the original model."""
        return 100 * (self.original["accuracy"] - record.metrics["accuracy"])

    def within(self, max_drop: float | None) -> list[TrialRecord]:
        """Return the trials of the front that measured a loss of at most `max_drop`; all without a limit."""
        return [each for each in self.front if max_drop is None or self.keeps(each.metrics, max_drop)]

    def checked(self, budget: Budget, correct: Callable[[TrialRecord], Correct], *, prefilter: bool) -> Results:
        """Return the results with the cheapest trial that keeps a budget on the budget's own rows.

        With `prefilter`, trials that measured a larger loss are not tried: they were measured on the same rows.
        """
        trials = [each for each in self.complete if not prefilter or self.keeps(each.metrics, budget.max_drop)]
        trials.sort(key=self._gains_of_choice, reverse=True)
        return replace(self, is_checked=True, choice=budget.choose(trials, correct))

    def keeps(self, metrics: Mapping[str, float], max_drop: float) -> bool:
        """Return whether at most `max_drop` percentage points of accuracy were lost, as measured."""
        return 100 * (self.original["accuracy"] - metrics["accuracy"]) <= max_drop + DROP_TOLERANCE

    def _gains_of_choice(self, record: TrialRecord) -> tuple[float, float]:
        return self.cost.gain(record.metrics), record.metrics["accuracy"]

    def best(self, max_drop: float | None) -> BestTrial:
        """Return the best trial and the rule that chose it; no trial if all lose more than `max_drop`.

        Without `max_drop` it is the trial with the best sum if the objectives are summed. Otherwise it is the
        cheapest one that measured a loss of at most `DEFAULT_MAX_DROP`, or the most accurate one if all lose more.
        """
        if max_drop is None and self.objectives.sum_direction is not None:
            names = ", ".join(each.name for each in self.objectives.items)
            pick = max if self.objectives.sum_direction == "maximize" else min
            best = pick(self.complete, key=lambda each: self.objectives.values(each.metrics)[0], default=None)
            return BestTrial(best, f"best sum of {names}")
        allowed = DEFAULT_MAX_DROP if max_drop is None else max_drop
        good = [each for each in self.complete if self.keeps(each.metrics, allowed)]
        if not good and max_drop is None:
            reason = f"all trials lose more than {percentage_points(DEFAULT_MAX_DROP)}"
            return BestTrial(self.most_accurate, f"highest accuracy: {reason}")
        best = max(good, key=self._gains_of_choice, default=None)
        extreme = "lowest" if self.cost.prefers_lower else "highest"
        points, title = percentage_points(allowed), known_metrics()[self.cost.name].title
        rule = f"{extreme} {title} of all trials that lose at most {points} of accuracy"
        if not self.is_checked:
            return BestTrial(best, rule)
        if self.choice is not None and not self.choice.is_sure:
            rule = f"surest of all trials that lose at most {points} of accuracy"
        checked = None if self.choice is None else self.choice.candidate
        return BestTrial(checked, f"{rule} on validation rows and on rows held back")

    @property
    def most_accurate(self) -> TrialRecord | None:
        return max(self.complete, key=lambda each: each.metrics["accuracy"], default=None)

    def importances_of_shown_metrics(self) -> Importances:
        """Return the importances for accuracy and for the cost that is shown, or why they are unknown."""
        if self.known_importances is not None:
            return self.known_importances
        return {name: self.importances(name) for name in ("accuracy", self.cost.name)}

    def importances(self, metric: str) -> dict[str, float] | str:
        """Return the importance of each choice for a metric, or a sentence that says why it is unknown.

        If there are many trials, it is estimated from `MAX_TRIALS_FOR_IMPORTANCES` of them, evenly spaced.
        """
        objective = Objective(metric, better_direction(metric))
        step = math.ceil(len(self.complete) / MAX_TRIALS_FOR_IMPORTANCES)
        trials = self.complete[:: max(1, step)]
        return _importances([each.params for each in trials], [objective.gain(each.metrics) for each in trials])


def _labels_of_baselines(
    records: Sequence[TrialRecord], baselines: Sequence[Baseline], space: Space
) -> dict[int, str]:
    params = [(each.label, space.params(each.configuration)) for each in baselines]
    labels = {equality_key(each): label for label, each in params if each is not None}
    complete = (each for each in records if each.state == "complete")
    candidates = [each for each in complete if any(each.params == other for _, other in params)]  # 1 equals True
    keys = ((each.number, equality_key(each.params)) for each in candidates)
    return {number: labels[key] for number, key in keys if key in labels}


def _importances(params: Sequence[Params], values: Sequence[float]) -> dict[str, float] | str:
    """Return the importance of each choice, the largest first, or a sentence that says why it is unknown.

    It is measured by PED-ANOVA (Watanabe et al., 2023): how much a choice contributes to the difference between the
    best trials, those with the largest values, and the others. Only choices that all trials make are compared.
    """
    finite = [(each, value) for each, value in zip(params, values, strict=True) if math.isfinite(value)]
    if len(finite) < MIN_TRIALS_FOR_IMPORTANCES:
        return (
            f"the importance of choices is not shown for {counted(len(finite), 'trial')}; "
            f"it needs at least {MIN_TRIALS_FOR_IMPORTANCES}"
        )
    common = [name for name in finite[0][0] if all(name in each for each, _ in finite)]
    choices = {name: tuple({each[name]: None for each, _ in finite}) for name in common}
    varied = {name: CategoricalDistribution(each) for name, each in choices.items() if len(each) > 1}
    if not varied:
        return "the importance of choices is not shown: no choice that all trials have in common varies"
    if len({value for _, value in finite}) == 1:
        return "the importance of choices is not shown: all trials are equally good"
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances  # imports scikit-learn

    study = optuna.create_study(direction="maximize")
    study.add_trials(
        optuna.create_trial(params={name: each[name] for name in varied}, distributions={**varied}, value=value)
        for each, value in finite
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", UserWarning)  # a choice that all of the best trials share has no variance
        return get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
