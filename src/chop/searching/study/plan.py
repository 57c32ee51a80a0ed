"""The plan of a study: the trials it will run, stored before the first one runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chop.display.launcher import option_name
from chop.display.progress import ProgressBar
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Configuration, Params, Space
from chop.searching.space.baselines import uniform_baselines
from chop.searching.space.dimension import distinct_params
from chop.searching.spec import SearchSpec
from chop.searching.study.identity import IDENTITY, check_identity
from chop.searching.study.study import BASELINES, ORIGINAL, Study

logger = logging.getLogger(__name__)

N_TRIALS = "n_trials"
"""The note of a study that holds the number of trials that was asked for."""


@dataclass(frozen=True)
class TrialPlan:
    """The trials to run, uniform baselines first, and what is known before any of them runs."""

    space: Space
    params: list[Params]
    notes: Mapping[str, Any]

    @classmethod
    def make(cls, spec: SearchSpec, problem: Problem) -> TrialPlan:
        """Measure the uniform baselines and let the strategy plan its trials; params in both are planned once."""
        try:
            baselines = _measure_baselines(uniform_baselines(problem.space), problem)
            planned = spec.strategy.plan(problem, spec.objectives, spec.config.seed)
            original = problem.measure_original()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "the trials were still being planned, and none has run; run the same command again"
            ) from None
        in_space = [params for each in baselines if (params := problem.space.params(each["configs"])) is not None]
        distinct = distinct_params([*in_space, *planned], keep_empty=True)
        notes = {BASELINES: baselines, ORIGINAL: original, N_TRIALS: spec.strategy.n_trials}
        return cls(problem.space, distinct[: problem.space.num_configurations], notes)  # no trial is repeated


def ensure_planned(
    study: Study, spec: SearchSpec, problem: Problem, own_identity: Mapping[str, Any], plan: TrialPlan | None
) -> None:
    """Plan the trials if this process created the study; else wait for the plan, and extend it when resuming."""
    if study.is_creator:
        assert plan is not None, "it is made before the study is created"
        _store_plan(study, plan, own_identity)
        return
    if study.num_planned is None:
        logger.info("study '%s': waiting until its trials are planned", study.name)
    while not study.wait_for_plan():
        if study.elect_planner():
            logger.info("study '%s': the process that planned it has crashed; finishing its plan", study.name)
            _store_plan(study, plan or TrialPlan.make(spec, problem), own_identity)
    check_identity(study, own_identity)
    if (num_trials := len(study.records())) < (study.num_planned or 0):
        raise ValueError(
            f"study '{study.name}' is corrupt: it has {num_trials} of its {study.num_planned} trials, so that "
            "results may belong to other trials; start a new search"
        )
    stored = study.read_note(N_TRIALS)
    if not isinstance(stored, int):
        raise ValueError(f"study '{study.name}' is corrupt: it has no number of trials; start a new search")
    if spec.strategy.n_trials <= stored:
        return
    if not spec.config.resume:
        message = "study '%s' keeps its %d trials; use %s to add more"
        logger.info(message, study.name, study.num_planned, option_name("resume"))
        return
    for record in study.records():  # a corrupt study is refused before anything is added to it
        if record.state == "complete":
            spec.objectives.gains(record.metrics)
    if study.elect_planner():
        before = study.num_planned
        _store_plan(study, plan or TrialPlan.make(spec, problem), own_identity)
        logger.info("study '%s' now has %d trials instead of %d", study.name, study.num_planned, before)


def _store_plan(study: Study, plan: TrialPlan, own_identity: Mapping[str, Any]) -> None:
    # The new number of trials is stored last: if this process crashes, the trials still count as missing.
    stored = study.read_note(N_TRIALS)
    before = {} if stored is None else {N_TRIALS: stored}
    for key, note in {IDENTITY: own_identity, **plan.notes, **before}.items():
        study.write_note(key, note)
    study.plan(plan.params, plan.space)
    study.write_note(N_TRIALS, plan.notes[N_TRIALS])


def _measure_baselines(baselines: Mapping[str, Configuration], problem: Problem) -> list[dict[str, Any]]:
    """Return the baselines with their metrics; one that its format does not allow is left out with a warning."""
    found = []
    with ProgressBar("measuring uniform baselines", len(baselines)) as progress:
        for label, configuration in baselines.items():
            try:
                found.append({"label": label, "configs": configuration, "metrics": problem.measure(configuration)})
            except ValueError as error:
                logger.warning("the uniform baseline '%s' is not possible: %s", label, error)
            progress.step()
    return found
