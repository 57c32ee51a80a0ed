"""The runs of a project, and how a run is found by its path, its name or as the latest."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from chop.config import ACTIONS, LATEST, ActionConfig
from chop.display.launcher import option_name
from chop.files import read_toml
from chop.registry import UnknownNameError, closest
from chop.runs.folder import RunFolder, run_prefix, with_absolute_paths

Config = TypeVar("Config", bound=ActionConfig)
logger = logging.getLogger(__name__)

MAX_RUNS_NAMED = 5  # in an error message
RUN_OPTIONS = ("load_name", "teacher")
"""Options that can name a run; not every command has all of them."""
FLOAT_LATEST = (LATEST, f"{LATEST}:train")
"""Where commands that quantise start from a model in float; they take a quantised one if it is named."""
MAX_DEPTH = 3  # of paths in a run folder that commands print, and users pass back


def list_runs(project_dir: Path) -> list[RunFolder]:
    """Return all runs of a project, newest first, including those that were stopped."""
    if not project_dir.is_dir():
        return []
    folders = [RunFolder(path) for path in project_dir.iterdir() if not path.name.startswith(".")]
    started = [(time, folder) for folder in folders if (time := folder.started_at) is not None]

    def order(pair: tuple[float, RunFolder]) -> list[Any]:  # of runs started at the same time, _10 is after _9
        return [pair[0], [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", pair[1].name)]]

    return [folder for _, folder in sorted(started, key=order, reverse=True)]


def find_run(run: Path | None, project_dir: Path) -> RunFolder:
    """Return the run with this path or name; None and `latest`: the newest one, `latest:train`: of `ch train`."""
    if run is None or _is_latest(run):
        return _latest(run, project_dir)
    paths = [run, project_dir / run]
    for path in paths:
        for folder in (path, *list(path.absolute().parents)[:MAX_DEPTH]) if path.exists() else ():
            if RunFolder(folder).config.is_file():
                return RunFolder(folder)
    if any(path.exists() for path in paths):
        raise ValueError(f"'{run}' is not a run folder; ch train, ch test, ch transform and ch search create them")
    raise UnknownNameError(f"there is no run '{run}'{_nearest(str(run), project_dir)}")


def find_grid(run: Path | None, project_dir: Path) -> RunFolder | None:
    """Return the folder of a grid of training runs with this path or name; None if it is something else."""
    folders = [] if run is None else [RunFolder(run), RunFolder(project_dir / run)]
    return next((folder for folder in folders if folder.grid.is_file()), None)


def with_run_to_load(config: Config) -> Config:
    """Return the configuration with the paths of the runs that its `load_name` and `teacher` stand for.

    `latest` is the newest finished run of this model and data set that keeps a model, `latest:train` the newest one
    of `ch train`. For commands that quantise, both are in float. The name of a run in the project also works.
    """
    for name in RUN_OPTIONS:
        path = _run_to_load(config, getattr(config, name, None))
        if path is not None:
            changed: dict[str, Any] = {name: path}
            config = replace(config, **changed)
    return config


def _run_to_load(config: ActionConfig, given: Path | None) -> Path | None:
    """Return the path of the run that an option stands for; None if it is a path already."""
    if given is None or given.exists():
        return None
    if _is_latest(given):
        in_float = config.quantizes and str(given) in FLOAT_LATEST
        wanted = {"model": config.model, "dataset": config.dataset}
        path = _latest(given, config.project_dir, in_float=in_float, **wanted).path
        logger.info("%s%s is %s", given, ", the newest in float," if in_float else "", path)
        return path
    if (config.project_dir / given).exists():
        return config.project_dir / given
    if given.suffix or given.parent != Path():  # a file, whose absence is reported when it is read
        return None
    nearest = _nearest(str(given), config.project_dir)
    raise UnknownNameError(f"no run or file is called '{given}'{nearest}")


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
    folders = [folder for folder in list_runs(config.project_dir) if marker(folder).exists()]
    found = [folder for folder in folders if _has_inputs(folder, config) and matches(folder)]
    return max(found, key=lambda folder: marker(folder).stat().st_mtime, default=None)


def _has_inputs(folder: RunFolder, config: ActionConfig) -> bool:
    """Whether a run has the name of `config`, or without one the same model and data set."""
    if config.name is not None:
        return re.fullmatch(rf"{re.escape(config.name)}(_\d+)?", folder.name) is not None
    if folder.name.startswith(run_prefix(config)):
        return True
    try:
        kept = read_toml(folder.config)
    except (OSError, ValueError):  # it is missing or corrupt
        return False
    absolute = with_absolute_paths(config)
    return (kept.get("model"), kept.get("dataset")) == (absolute.model, absolute.dataset)


def _is_latest(run: Path) -> bool:
    return str(run).partition(":")[0] == LATEST


def _latest(run: Path | None, project_dir: Path, in_float: bool = False, **wanted: str) -> RunFolder:
    """Return the newest finished run; `latest:train` is one of `ch train`.

    With `wanted`, it must have these values in its summary; with a wanted model, it must also keep it. With
    `in_float`, runs that keep a quantised model are left out.
    """
    action = str(run).partition(":")[2] if run is not None else ""
    if action:
        if action not in ACTIONS:
            raise UnknownNameError(f"'{run}': unknown action '{action}'; {closest(action, ACTIONS)}")
        wanted["action"] = action
    quantized: list[str] = []
    for folder in list_runs(project_dir):
        if folder.is_finished and (folder.keeps_model or "model" not in wanted) and _has(folder, wanted):
            if not (in_float and folder.keeps_quantized):
                return folder
            quantized.append(folder.name)
    kind = f"run of ch {action}" if action else "run"
    whose = f" that keeps '{wanted['model']}' for '{wanted['dataset']}'" if "model" in wanted else ""
    hint = f"use {option_name('project_dir')} to select another folder"
    if quantized:
        whose += f" in float: '{quantized[0]}' is quantised"
        hint = f"to start from it, use its name: {option_name('load')} {quantized[0]}"
    raise ValueError(f"there is no finished {kind} in '{project_dir}'{whose}; {hint}")


def _has(folder: RunFolder, wanted: Mapping[str, str]) -> bool:
    if not wanted:
        return True
    try:
        summary = folder.read_summary()
    except (OSError, ValueError):  # it is corrupt, or belongs to another user
        return False
    return all(summary.get(key) == value for key, value in wanted.items())


def _nearest(name: str, project_dir: Path) -> str:
    names = [folder.name for folder in list_runs(project_dir)]
    if not names:
        return f", and '{project_dir}' has no runs; use {option_name('project_dir')} to select another folder"
    text = closest(name, names)
    if text.startswith("did you mean") or len(names) <= MAX_RUNS_NAMED:
        return f"; {text}"
    return f"; the newest are: {', '.join(names[:MAX_RUNS_NAMED])}"
