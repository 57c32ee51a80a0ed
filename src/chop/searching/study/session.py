"""Opening the study of a search: a new one, one to resume, or one that other machines have started."""

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
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Configs, Params, Space
from chop.searching.space.baselines import uniform_baselines
from chop.searching.spec import SearchSpec
from chop.searching.strategies import Strategy
from chop.searching.study.storage import (
    MEMORY,
    StudyStorage,
    is_database,
    open_database,
    open_journal,
    open_memory,
    portable_url,
)
from chop.searching.study.study import BASELINES, ORIGINAL, Study, params_key
from chop.toml import to_toml_value

logger = logging.getLogger(__name__)

IDENTITY, N_TRIALS = "identity", "n_trials"
"""Notes of a study: what makes it the same search, and the number of trials that was asked for."""
DIFFERENCES = {
    "data": "it was run on different data",
    "weights": "its model has different weights",
    "space": "its search space differs",
    "metrics": "its metrics differ",
    "strategy": "its strategy differs",
}


@dataclass(frozen=True)
class TrialPlan:
    """The trials to run, uniform baselines first, and what is known before any of them runs."""

    space: Space
    params: list[Params]
    notes: Mapping[str, Any]

    @classmethod
    def make(cls, spec: SearchSpec, problem: Problem) -> TrialPlan:
        """Measure the uniform baselines and let the strategy plan its trials; params in both are planned once."""
        baselines = _measure_baselines(uniform_baselines(problem.space), problem)
        in_space = [params for each in baselines if (params := problem.space.params(each["configs"])) is not None]
        planned = spec.strategy.plan(problem, spec.objectives, spec.config.seed)
        notes = {
            BASELINES: baselines,
            ORIGINAL: problem.measure_original(),
            N_TRIALS: spec.strategy.n_trials,
        }
        return cls(problem.space, _without_repetitions([*in_space, *planned]), notes)


@dataclass(frozen=True)
class StudyLocation:
    """The database of a study and the run folder to resume; None where a search has none."""

    database: StudyStorage | None
    resumed_folder: RunFolder | None

    @classmethod
    def find(cls, config: SearchConfig) -> StudyLocation:
        """Open the database and find the run to resume; errors are raised before anything is written."""
        if config.storage == MEMORY and config.resume:
            raise ValueError("a search in memory cannot be resumed: leave out --storage memory")
        database = None
        if is_database(config.storage):
            assert config.storage is not None
            database = open_database(config.storage)
        folder = _folder_to_resume(config) if config.resume else None
        if config.resume and folder is None and database is None:
            logger.warning("nothing to resume in %s: starting a new search", config.project_dir)
        return cls(database, folder)


@contextmanager
def open_study(
    spec: SearchSpec, experiment: Experiment, problem: Problem, location: StudyLocation
) -> Iterator[tuple[RunFolder, Study]]:
    """Provide the run folder and the study with all trials planned; this process counts as a worker inside."""
    config, own_identity = spec.config, identity(spec, experiment)
    storage = location.database
    if storage is None and location.resumed_folder is not None:
        storage = open_journal(location.resumed_folder)
    name = _known_name(config, location, storage)
    study = Study.load(storage, name) if storage is not None and name is not None else None
    if study is not None:
        _check_identity(study, own_identity)
    plan = TrialPlan.make(spec, problem) if study is None else None  # before anything is written
    folder = location.resumed_folder or RunFolder.create_for(_config_to_keep(config, config.study))
    folder.search.mkdir(exist_ok=True)  # results are written to it even if the study is in a database
    storage = storage or (open_memory() if config.storage == MEMORY else open_journal(folder))
    with storage.heartbeat:
        if location.resumed_folder is not None and storage.heartbeat.is_only_worker():
            folder.remove_temporary_files()
        study = study or _create(storage, name, folder.name, spec)
        needs_name = location.database is not None or study.name != folder.name  # a journal holds one study
        folder.write_config(_config_to_keep(config, study.name if needs_name else None))
        _ensure_planned(study, spec, problem, own_identity, plan)
        yield folder, study


def identity(spec: SearchSpec, experiment: Experiment) -> dict[str, Any]:
    """Return what must be equal for a search to be resumed, or for a machine to join it."""
    weights = hashlib.sha256()
    for key, tensor in experiment.model.state_dict().items():
        weights.update(key.encode())
        weights.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return {
        "model and data set": run_prefix(spec.config).strip("_"),
        "seed": spec.config.seed,
        "data": experiment.data_hash,
        "weights": weights.hexdigest(),
        "space": _digest(to_toml_value(spec.config.search.search_space)),
        "metrics": _digest(repr((spec.objectives, spec.evaluation, spec.training, spec.cost_runners))),
        "strategy": _digest(repr(_without_limits(spec.strategy))),
    }


def _without_limits(strategy: Strategy) -> Strategy:
    """Return the strategy without options that may differ between machines, or when a search is resumed."""
    return replace(strategy, n_trials=1, n_jobs=1, timeout=None, save_every_n_trials=0)


def _folder_to_resume(config: SearchConfig) -> RunFolder | None:
    return find_run_to_resume(
        config,
        lambda folder: folder.search if is_database(config.storage) else folder.journal,
        lambda folder: config.study in (None, _study_named_in(folder)),
    )


def _study_named_in(folder: RunFolder) -> str | None:
    """Return the name of the study in the configuration of a run; None if it names none."""
    try:
        found = read_toml(folder.config).get("study")
    except (OSError, ValueError):  # a run that was killed at its very beginning
        return None
    return found if isinstance(found, str) else None


def _known_name(config: SearchConfig, location: StudyLocation, storage: StudyStorage | None) -> str | None:
    """Return the name of the study, if it is known before there is a folder."""
    if location.database is not None:
        folder = location.resumed_folder
        return config.study or (None if folder is None else _study_named_in(folder))
    studies = storage.storage.get_all_studies() if storage is not None else ()
    return next((study.study_name for study in studies), config.study)  # a journal holds one study


def _create(storage: StudyStorage, name: str | None, default_name: str, spec: SearchSpec) -> Study:
    """Create a study, or return the one of that name which another process has created in the meantime."""
    number = 1
    while True:
        wanted = name or (default_name if number == 1 else f"{default_name}_{number}")
        created = Study.create(storage, wanted, spec.objectives.directions)
        if created is not None:
            return created
        if name is not None and (found := Study.load(storage, name)) is not None:
            return found
        number += 1


def _config_to_keep(config: SearchConfig, study: str | None) -> SearchConfig:
    """Return the configuration as the run folder keeps it: without a password."""
    return replace(config, study=study, storage=None if config.storage is None else portable_url(config.storage))


def _ensure_planned(
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
    _check_identity(study, own_identity)
    if spec.strategy.n_trials <= study.read_note(N_TRIALS):
        return
    if not spec.config.resume:
        logger.info("study '%s' keeps its %d trials; --resume adds more", study.name, study.num_planned)
    elif study.elect_planner():
        before = study.num_planned
        _store_plan(study, plan or TrialPlan.make(spec, problem), own_identity)
        logger.info("study '%s' now has %d trials instead of %d", study.name, study.num_planned, before)


def _store_plan(study: Study, plan: TrialPlan, own_identity: Mapping[str, Any]) -> None:
    # The new number of trials is stored last: if this process crashes, the trials still count as missing.
    stored = study.read_note(N_TRIALS)
    notes = {IDENTITY: own_identity, **plan.notes}
    if stored is not None:
        notes[N_TRIALS] = stored
    for key, note in notes.items():
        study.write_note(key, note)
    study.plan(plan.params, plan.space)
    study.write_note(N_TRIALS, plan.notes[N_TRIALS])


def _check_identity(study: Study, own_identity: Mapping[str, Any]) -> None:
    """Raise ValueError if the study is a different search; a study without an identity yet passes."""
    for key, stored in (study.read_note(IDENTITY) or {}).items():
        if stored != own_identity[key]:
            difference = DIFFERENCES.get(key, f"its {key} is {stored!r}, not {own_identity[key]!r}")
            raise ValueError(
                f"study '{study.name}' is a different search: {difference}; resume it with its own options "
                f"({launcher()} search --config RUN/run.toml --resume), or start a new one"
            )


def _measure_baselines(baselines: Mapping[str, Configs], problem: Problem) -> list[dict[str, Any]]:
    """Return the baselines with their metrics; one that its format does not allow is left out with a warning."""
    found = []
    for label, configs in baselines.items():
        try:
            found.append({"label": label, "configs": configs, "metrics": problem.measure(configs)})
        except ValueError as error:
            logger.warning("the uniform baseline '%s' is not possible: %s", label, error)
    return found


def _without_repetitions(params: list[Params]) -> list[Params]:
    """Return each of the params once; empty ones, which a sampler will draw, are all kept."""
    seen: set[str] = set()
    kept = []
    for each in params:
        key = params_key(each)
        if not each or key not in seen:
            seen.add(key)
            kept.append(each)
    return kept


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
