"""The runs of a project, and how a run is found by its path, its name or as the latest."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chop.config import ActionConfig
from chop.registry import UnknownNameError, closest
from chop.runs.folder import RunFolder, run_prefix

LATEST = "latest"
MAX_RUNS_NAMED = 5  # in an error message
MAX_DEPTH = 3  # of paths in a run folder that commands print, and users pass back


def list_runs(project_dir: Path) -> list[RunFolder]:
    """Return all runs of a project, newest first, including those that were stopped."""
    if not project_dir.is_dir():
        return []
    folders = [RunFolder(path) for path in project_dir.iterdir() if not path.name.startswith(".")]
    started = [(time, folder) for folder in folders if (time := folder.started_at) is not None]
    started.sort(key=lambda pair: (pair[0], _name_order(pair[1].name)), reverse=True)
    return [folder for _, folder in started]


def find_run(run: Path | None, project_dir: Path) -> RunFolder:
    """Return the run with this path, or this name in the project; None and `latest`: the newest finished run."""
    if run is None or str(run) == LATEST:
        return _latest(project_dir)
    paths = [run, project_dir / run]
    for path in paths:
        for folder in (path, *list(path.absolute().parents)[:MAX_DEPTH]) if path.exists() else ():
            if RunFolder(folder).config.is_file():
                return RunFolder(folder)
    if any(path.exists() for path in paths):
        raise ValueError(f"'{run}' is not a run folder; ch train, ch test, ch transform and ch search create them")
    raise UnknownNameError(f"there is no run '{run}', {_nearest(str(run), project_dir)}")


def find_run_to_resume(
    config: ActionConfig,
    marker: Callable[[RunFolder], Path],
    matches: Callable[[RunFolder], bool] = lambda folder: True,
) -> RunFolder | None:
    """Return the run beside the configuration file, else the latest one of this model and data set that matches.

    `marker` is a file or folder that a resumable run has; its modification time decides which run is the latest.
    """
    if config.config is not None and marker(beside := RunFolder(config.config.parent)).exists():
        return beside
    prefix = run_prefix(config)
    paths = config.project_dir.iterdir() if config.project_dir.is_dir() else ()
    folders = [RunFolder(path) for path in paths if path.name.startswith(prefix)]
    found = [folder for folder in folders if marker(folder).exists() and matches(folder)]
    return max(found, key=lambda folder: marker(folder).stat().st_mtime, default=None)


def _name_order(name: str) -> list[Any]:
    """Return a key that sorts the names of runs started at the same time, with _10 after _9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _latest(project_dir: Path) -> RunFolder:
    latest = next((folder for folder in list_runs(project_dir) if folder.is_finished), None)
    if latest is None:
        raise ValueError(f"there is no finished run in '{project_dir}'; use --project-dir to select another folder")
    return latest


def _nearest(name: str, project_dir: Path) -> str:
    names = [folder.name for folder in list_runs(project_dir)]
    if not names:
        return f"and '{project_dir}' has no runs; use --project-dir to select another folder"
    text = closest(name, names)
    if text.startswith("did you mean") or len(names) <= MAX_RUNS_NAMED:
        return text
    return f"the newest are: {', '.join(names[:MAX_RUNS_NAMED])}"
