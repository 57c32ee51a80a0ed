"""The study of a search: a new one, one that goes on, or one that others have begun."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from chop.config import SearchConfig
from chop.display.terminal import launcher
from chop.files import read_toml
from chop.runs import Experiment, RunFolder
from chop.runs.folder import run_prefix
from chop.runs.listing import find_run_to_resume
from chop.searching.evaluation.problem import Measurable
from chop.searching.plan import Plan
from chop.searching.results.results import BASELINES, PLAIN
from chop.searching.space import Params, Space
from chop.searching.space.baselines import uniform_baselines
from chop.searching.space.space import Configs
from chop.searching.strategies import Strategy
from chop.searching.study.storage import (
    MEMORY,
    Place,
    is_database,
    lasting,
    open_database,
    open_journal,
    open_memory,
)
from chop.searching.study.study import Study
from chop.toml import plain

logger = logging.getLogger(__name__)

IDENTITY, N_TRIALS = "identity", "n_trials"
SENTENCES = {
    "data": "its data are others",
    "weights": "its model has other weights",
    "space": "it searches another space",
    "metrics": "it measures something else",
    "strategy": "its strategy is another one",
}


@dataclass(frozen=True)
class Draft:
    """The points to try, the uniform ones first, and what is known before any of them is tried."""

    space: Space
    points: list[Params]
    notes: Mapping[str, Any]

    @classmethod
    def make(cls, plan: Plan, problem: Measurable) -> Draft:
        """Measures the uniform baselines and lets the strategy choose; a point that is in both is tried once."""
        measured = _measured(uniform_baselines(problem.space), problem)
        inside = [point for each in measured if (point := problem.space.params(each["configs"])) is not None]
        chosen = plan.strategy.plan(problem, plan.objectives, plan.config.seed)
        notes = {BASELINES: measured, PLAIN: problem.plain(), N_TRIALS: plan.strategy.n_trials}
        return cls(problem.space, _once([*inside, *chosen]), notes)


@dataclass(frozen=True)
class Origin:
    """Where a search begins: the database of its study, and the run that goes on, if there are such."""

    place: Place | None
    folder: RunFolder | None

    @classmethod
    def find(cls, config: SearchConfig) -> Origin:
        """All that can be wrong with the place is told here, and nothing written."""
        if config.storage == MEMORY and config.resume:
            raise ValueError("a search in memory leaves nothing to resume: leave out --storage memory")
        place = None
        if is_database(config.storage):
            assert config.storage is not None
            place = open_database(config.storage)
        folder = _folder_to_resume(config) if config.resume else None
        if config.resume and folder is None and place is None:
            logger.warning("there is nothing to resume in %s: a new search begins", config.project_dir)
        return cls(place, folder)


@contextmanager
def open_study(
    plan: Plan, experiment: Experiment, problem: Measurable, origin: Origin
) -> Iterator[tuple[RunFolder, Study]]:
    """The folder of the run, and its study with all trials planned; within it this process counts as a worker."""
    config, same = plan.config, identity(plan, experiment)
    place = origin.place
    if place is None and origin.folder is not None:
        place = open_journal(origin.folder)
    name = _name(config, origin, place)
    study = Study.load(place, name) if place is not None and name is not None else None
    if study is not None:
        _check_same(study, same)
    draft = Draft.make(plan, problem) if study is None else None  # before anything is written
    folder = origin.folder or RunFolder.create_for(_kept(config, config.study))
    folder.search.mkdir(exist_ok=True)  # for the results of a search in a database, too
    place = place or (open_memory() if config.storage == MEMORY else open_journal(folder))
    with place.presence:
        if origin.folder is not None and place.presence.is_alone():
            folder.remove_temporary_files()
        study = study or _create(place, name, folder.name, plan)
        is_told = origin.place is not None or study.name != folder.name  # else the journal names it
        folder.write_config(_kept(config, study.name if is_told else None))
        _settle(study, plan, problem, same, draft)
        yield folder, study


def identity(plan: Plan, experiment: Experiment) -> dict[str, Any]:
    """What must be the same for a search to go on, or for a machine to join it."""
    weights = hashlib.sha256()
    for key, tensor in experiment.model.state_dict().items():
        weights.update(key.encode())
        weights.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "model and data set": run_prefix(plan.config).strip("_"),
        "seed": plan.config.seed,
        "data": experiment.data_hash,
        "weights": weights.hexdigest(),
        "space": _digest(plain(plan.config.search.search_space)),
        "metrics": _digest(repr((plan.objectives, plan.evaluation, plan.training, plan.costs))),
        "strategy": _digest(repr(_decisive(plan.strategy))),
    }


def _decisive(strategy: Strategy) -> Strategy:
    """Without what may change when a search goes on, or differ between machines."""
    return replace(strategy, n_trials=1, n_jobs=1, timeout=None, save_every_n_trials=0)


def _folder_to_resume(config: SearchConfig) -> RunFolder | None:
    return find_run_to_resume(
        config,
        lambda folder: folder.search if is_database(config.storage) else folder.journal,
        lambda folder: config.study in (None, _study_in(folder)),
    )


def _study_in(folder: RunFolder) -> str | None:
    """The name of the study that a run was told to work on."""
    try:
        found = read_toml(folder.config).get("study")
    except (OSError, ValueError):  # a run that was killed at its very beginning
        return None
    return found if isinstance(found, str) else None


def _name(config: SearchConfig, origin: Origin, place: Place | None) -> str | None:
    """The name of the study, if it is known before there is a folder."""
    if origin.place is not None:
        return config.study or (None if origin.folder is None else _study_in(origin.folder))
    studies = place.storage.get_all_studies() if place is not None else ()
    return next((study.study_name for study in studies), config.study)  # a journal holds one


def _create(place: Place, name: str | None, usual: str, plan: Plan) -> Study:
    """A new study, or the one of that name which another process has made in the meantime."""
    number = 1
    while True:
        wanted = name or (usual if number == 1 else f"{usual}_{number}")
        made = Study.create(place, wanted, plan.objectives.directions)
        if made is not None:
            return made
        if name is not None and (found := Study.load(place, name)) is not None:
            return found
        number += 1


def _kept(config: SearchConfig, study: str | None) -> SearchConfig:
    """The configuration as the run keeps it: without a password."""
    return replace(config, study=study, storage=None if config.storage is None else lasting(config.storage))


def _settle(study: Study, plan: Plan, problem: Measurable, same: Mapping[str, Any], draft: Draft | None) -> None:
    """See to it that all trials are planned, by whoever made the study, or by this process if that one is gone."""
    if study.is_mine:
        assert draft is not None, "made before the study"
        _plan(study, draft, same)
        return
    if study.planned is None:
        logger.info("study '%s': waiting for its trials to be planned", study.name)
    while not study.wait_for_plan():
        if study.elect():
            logger.info("study '%s': whoever began to plan it is gone; its plan is finished here", study.name)
            _plan(study, draft or Draft.make(plan, problem), same)
    _check_same(study, same)
    if plan.strategy.n_trials <= study.note(N_TRIALS):
        return
    if not plan.config.resume:
        logger.info("study '%s' keeps to its %d trials; --resume adds more", study.name, study.planned)
    elif study.elect():
        before = study.planned
        _plan(study, draft or Draft.make(plan, problem), same)
        logger.info("study '%s': %d trials instead of %d", study.name, study.planned, before)


def _plan(study: Study, draft: Draft, same: Mapping[str, Any]) -> None:
    known = study.note(N_TRIALS)  # the new number is told once its trials are there: until then they are missing
    first = {N_TRIALS: draft.notes[N_TRIALS] if known is None else known}
    for key, note in {IDENTITY: same, **draft.notes, **first}.items():
        study.write(key, note)
    study.plan(draft.points, draft.space)
    study.write(N_TRIALS, draft.notes[N_TRIALS])


def _check_same(study: Study, now: Mapping[str, Any]) -> None:
    """What is not known yet is not checked."""
    for key, then in (study.note(IDENTITY) or {}).items():
        if then != now[key]:
            what = SENTENCES.get(key, f"its {key} is {then!r}, not {now[key]!r}")
            raise ValueError(
                f"study '{study.name}' is another search: {what}; go on with its own options ({launcher()} search "
                "--config RUN/run.toml --resume), or begin a new one"
            )


def _measured(uniform: Mapping[str, Configs], problem: Measurable) -> list[dict[str, Any]]:
    """The uniform choices with their metrics; one that its format does not allow is told and left out."""
    found = []
    for label, configs in uniform.items():
        try:
            found.append({"label": label, "configs": configs, "metrics": problem.measure(configs)})
        except ValueError as error:
            logger.warning("the uniform choice '%s' cannot be made: %s", label, error)
    return found


def _once(points: list[Params]) -> list[Params]:
    """Without repetitions; those that are left to a sampler may be alike."""
    seen: set[str] = set()
    kept = []
    for point in points:
        key = json.dumps(dict(point), sort_keys=True)
        if not point or key not in seen:
            seen.add(key)
            kept.append(point)
    return kept


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
