"""Opening the study of a search: a new one, one to resume, or one that other machines have started."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from chop.config import SearchConfig
from chop.display.launcher import option_name
from chop.files import read_toml
from chop.folder_lock import FolderLockedError, only_writer
from chop.runs import Experiment, RunFolder
from chop.runs.listing import find_run_to_resume
from chop.searching.evaluation.problem import Problem
from chop.searching.spec import SearchSpec
from chop.searching.study.identity import check_identity, identity
from chop.searching.study.plan import TrialPlan, ensure_planned
from chop.searching.study.storage import (
    MEMORY,
    StudyStorage,
    is_database,
    open_database,
    open_journal,
    open_memory,
    portable_url,
)
from chop.searching.study.study import Study

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StudyLocation:
    """The database of a study and the run folder to resume; None where a search has none."""

    database: StudyStorage | None
    resumed_folder: RunFolder | None

    @classmethod
    def find(cls, config: SearchConfig) -> StudyLocation:
        """Open the database and find the run to resume; errors are raised before anything is written."""
        if config.storage == MEMORY and config.resume:
            raise ValueError(f"a search in memory cannot be resumed: leave out {option_name('storage')} memory")
        database = None
        if is_database(config.storage):
            assert config.storage is not None
            database = open_database(config.storage)
        folder = None
        if config.resume:
            folder = _folder_to_resume(config, lambda folder: folder.search if database else folder.journal)
        if config.resume and folder is None and database is None:
            logger.warning("nothing to resume in %s: starting a new search", config.project_dir)
        return cls(database, folder)


def with_storage_of_resumed_run(config: SearchConfig) -> SearchConfig:
    """Return the options with the database of the run to resume, if `--storage` is not given."""
    if not config.resume or config.storage is not None:
        return config
    folder = _folder_to_resume(config, lambda folder: folder.search)
    storage = None if folder is None or folder.journal.exists() else _option_of(folder, "storage")
    if storage is None or not is_database(storage):
        return config
    logger.info("resuming the study in %s", storage)
    return replace(config, storage=storage)


@contextmanager
def open_study(
    spec: SearchSpec, experiment: Experiment, problem: Problem, location: StudyLocation
) -> Iterator[tuple[RunFolder, Study]]:
    """Provide the run folder and the study with all trials planned; this process counts as a worker inside."""
    config, own_identity = spec.config, identity(spec, experiment)
    with ExitStack() as stack:
        resumed = _lock_resumed_folder(location, stack)
        storage = location.database
        if storage is None and resumed is not None:
            storage = open_journal(resumed)
        name = _known_name(config, location, storage)
        study = Study.load(storage, name) if storage is not None and name is not None else None
        if study is not None:
            check_identity(study, own_identity)
        plan = TrialPlan.make(spec, problem) if study is None else None  # before anything is written
        folder = resumed or RunFolder.create_for(_config_to_keep(config, config.study))
        if resumed is None:
            stack.enter_context(only_writer(folder.path))
        else:
            folder.remove_temporary_files()
        folder.search.mkdir(exist_ok=True)  # results are written to it even if the study is in a database
        storage = storage or (open_memory() if config.storage == MEMORY else open_journal(folder))
        stack.callback(storage.close)
        study = study or _create(storage, name, folder.name, spec)
        needs_name = location.database is not None or study.name != folder.name  # a journal holds one study
        folder.write_config(_config_to_keep(config, study.name if needs_name else None))
        ensure_planned(study, spec, problem, own_identity, plan)
        yield folder, study


def _lock_resumed_folder(location: StudyLocation, stack: ExitStack) -> RunFolder | None:
    """Lock the folder of a run to resume and return it; None to use a new one.

    A study in a database can have several machines at work. Each has a folder of its own.
    """
    folder = location.resumed_folder
    if folder is not None:
        try:
            stack.enter_context(only_writer(folder.path))
        except FolderLockedError as error:
            if location.database is None:
                raise
            logger.info("%s; this process joins the study with a folder of its own", error)
            return None
    return folder


def _folder_to_resume(config: SearchConfig, path_of: Callable[[RunFolder], Path]) -> RunFolder | None:
    """Return the folder of the study; `path_of` gives what it must have."""
    return find_run_to_resume(config, path_of, lambda folder: config.study in (None, _option_of(folder, "study")))


def _option_of(folder: RunFolder, name: str) -> str | None:
    """Return an option of a run, such as the name of its study; None if it is not given."""
    try:
        found = read_toml(folder.config).get(name)
    except (OSError, ValueError):  # a run that was killed at its very beginning
        return None
    return found if isinstance(found, str) else None


def _known_name(config: SearchConfig, location: StudyLocation, storage: StudyStorage | None) -> str | None:
    """Return the name of the study, if it is known before there is a folder."""
    if location.database is not None:
        folder = location.resumed_folder
        return config.study or (None if folder is None else _option_of(folder, "study"))
    studies = storage.backend.get_all_studies() if storage is not None else ()
    return next((study.study_name for study in studies), config.study)  # a journal holds one study


def _create(storage: StudyStorage, name: str | None, default_name: str, spec: SearchSpec) -> Study:
    """Create a study, or return the one of that name which another process has created in the meantime."""
    for number in count(1):
        wanted = name or (default_name if number == 1 else f"{default_name}_{number}")
        study = Study.create(storage, wanted, spec.objectives.directions)
        if study is None and name is not None:
            study = Study.load(storage, name)
        if study is not None:
            return study
    raise AssertionError("some name is free")


def _config_to_keep(config: SearchConfig, study: str | None) -> SearchConfig:
    """Return the configuration as the run folder keeps it: without a password."""
    return replace(config, study=study, storage=None if config.storage is None else portable_url(config.storage))
