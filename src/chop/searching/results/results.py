"""What a search found, in order."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chop.searching.evaluation.objectives import QUALITY, Objective, Objectives, known_metrics
from chop.searching.results.importance import importances
from chop.searching.space import Space
from chop.searching.space.space import Configs
from chop.searching.study.study import Record, Study

BASELINES, PLAIN = "baselines", "plain"
USUAL_DROP = 1.0
"""Points of accuracy that the best configuration may lose, where nothing else is said."""


@dataclass(frozen=True)
class Baseline:
    """A uniform choice."""

    label: str
    metrics: Mapping[str, float]
    configs: Configs


@dataclass(frozen=True)
class Results:
    """All trials so far, the front among them, the uniform choices, and the model as it was."""

    objectives: Objectives
    plain: Mapping[str, float]
    baselines: Sequence[Baseline]
    records: Sequence[Record]
    uniform: Mapping[int, str] = field(default_factory=dict)
    """The labels of the trials that are uniform choices, by their numbers."""

    @classmethod
    def of(cls, study: Study, objectives: Objectives, space: Space) -> Results:
        baselines = [Baseline(each["label"], each["metrics"], each["configs"]) for each in study.note(BASELINES)]
        records = study.records()
        return cls(objectives, study.note(PLAIN), baselines, records, _uniform(records, baselines, space))

    @cached_property
    def complete(self) -> list[Record]:
        """The trials that were measured to the end; not those whose numbers left all bounds."""
        ended = [record for record in self.records if record.state == "complete"]
        wanted = [each.name for each in self.objectives.each]
        return [each for each in ended if all(math.isfinite(each.metrics[name]) for name in wanted)]

    @cached_property
    def front(self) -> list[Record]:
        """The trials that no other dominates, the most accurate first."""
        metrics = [each.metrics for each in self.complete]
        places = self.objectives.front(metrics)
        return sorted((self.complete[place] for place in places), key=lambda each: -each.metrics["accuracy"])

    @cached_property
    def unbeaten(self) -> list[Baseline]:
        """The uniform choices that no other trial equals or dominates."""

        def is_beaten(uniform: Baseline) -> bool:
            others = (each for each in self.complete if self.uniform.get(each.number) != uniform.label)
            return any(self.objectives.covers(each.metrics, uniform.metrics) for each in others)

        return [each for each in self.baselines if not is_beaten(each)]

    @property
    def cost(self) -> Objective:
        """The first cost that the search looks at, or bit operations."""
        costs = [each for each in self.objectives.each if each.name not in QUALITY]
        return costs[0] if costs else Objective("bitops", known_metrics()["bitops"])

    def beside(self, metrics: Mapping[str, float]) -> Baseline | None:
        """The uniform choice whose cost is nearest; of several, the most accurate."""
        name = self.cost.name

        def distance(each: Baseline) -> tuple[float, float]:
            return abs(each.metrics[name] - metrics[name]), -each.metrics["accuracy"]

        return min(self.baselines, key=distance, default=None)

    def drop(self, record: Record) -> float:
        """The points of accuracy that a trial loses."""
        return 100 * (self.plain["accuracy"] - record.metrics["accuracy"])

    def best(self, max_drop: float | None) -> Record | None:
        """The trial that `rule` asks for; None if no trial loses so little."""
        if max_drop is None and self.objectives.sum_direction is not None:
            sign = 1 if self.objectives.sum_direction == "maximize" else -1
            return max(self.complete, key=lambda each: sign * self.objectives.values(each.metrics)[0], default=None)
        allowed = USUAL_DROP if max_drop is None else max_drop
        good = [each for each in self.complete if self.drop(each) <= allowed + 1e-9]
        if good:
            return max(good, key=lambda each: (self.cost.gain(each.metrics), each.metrics["accuracy"]))
        return self.most_accurate if max_drop is None else None

    def importances(self, metric: str) -> dict[str, float] | str:
        """How much each choice matters for a metric, or why that is not known."""
        better = Objective(metric, known_metrics()[metric])
        return importances(
            [each.params for each in self.complete], [better.gain(each.metrics) for each in self.complete]
        )

    @property
    def most_accurate(self) -> Record | None:
        return max(self.complete, key=lambda each: each.metrics["accuracy"], default=None)

    def rule(self, max_drop: float | None) -> str:
        """What the best trial is, in words."""
        if max_drop is None and self.objectives.sum_direction is not None:
            return f"the best sum of {', '.join(each.name for each in self.objectives.each)}"
        if max_drop is None and self.best(USUAL_DROP) is None:
            return f"the most accurate: all lose more than {USUAL_DROP:g} point"
        drop = USUAL_DROP if max_drop is None else max_drop
        return f"the least {self.cost.name} that loses at most {drop:g} point{'' if drop == 1 else 's'} of accuracy"


def _uniform(records: Sequence[Record], baselines: Sequence[Baseline], space: Space) -> dict[int, str]:
    labels = {_key(each.configs): each.label for each in baselines}
    points = ((each.number, _key(space.configs(each.params))) for each in records if each.state == "complete")
    return {number: labels[key] for number, key in points if key in labels}


def _key(configs: Configs) -> str:
    return json.dumps(configs, sort_keys=True)
