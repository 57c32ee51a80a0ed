"""Which choices matter."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator

from chop.searching.space import Params

FEWEST = 20
"""Trials below which chance says more than any choice."""


def importances(points: Sequence[Params], values: Sequence[float]) -> dict[str, float] | str:
    """The share of each choice in how the best differ from the rest, the largest first; or why there are none.

    PED-ANOVA (Watanabe et al., 2023), of the choices that all points have. The largest values are the best.
    """
    measured = [(point, value) for point, value in zip(points, values, strict=True) if math.isfinite(value)]
    if len(measured) < FEWEST:
        return f"{len(measured)} trials are too few to tell which choices matter; {FEWEST} are needed"
    common = [name for name in measured[0][0] if all(name in point for point, _ in measured)]
    choices = {name: tuple({point[name]: None for point, _ in measured}) for name in common}
    varied = {name: CategoricalDistribution(each) for name, each in choices.items() if len(each) > 1}
    if not varied:
        return "no choice was made in different ways by all trials"
    if len({value for _, value in measured}) == 1:
        return "all trials do equally well: no choice matters"
    study = optuna.create_study(direction="maximize")
    study.add_trials(
        optuna.create_trial(params={name: point[name] for name in varied}, distributions={**varied}, value=value)
        for point, value in measured
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", UserWarning)  # a choice that all of the best share has no variance
        return optuna.importance.get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
