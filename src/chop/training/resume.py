"""Find the training run to resume, and check that it was started with the same options and data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, fields
from typing import Any

from chop.config import TrainConfig
from chop.display.launcher import launcher
from chop.folder_lock import only_writer
from chop.runs import RunFolder
from chop.runs.folder import with_absolute_paths
from chop.runs.listing import find_run_to_resume
from chop.toml import to_table
from chop.training.checkpoint import read_checkpoint
from chop.training.devices import is_main_process

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumedRun:
    """The folder of a stopped training, and its last checkpoint."""

    folder: RunFolder
    checkpoint: Mapping[str, Any]


def identity(config: TrainConfig, data_hash: str) -> dict[str, Any]:
    """Return what must not change when a run is resumed: the options that its weights depend on, and the data."""
    table = to_table(with_absolute_paths(config))
    same = [field.name for field in fields(config) if field.metadata["same_on_resume"]]
    return {**{name: table.get(name) for name in same}, "data": data_hash}


def find_stopped_run(config: TrainConfig, data_hash: str, lock: ExitStack) -> ResumedRun | None:
    """Return the run whose run.toml is the configuration file, else the latest one of this model and data set.

    None if there is none, for example because it was killed before its first checkpoint: the training starts again.
    Its folder is locked until `lock` is closed.
    """
    folder = find_run_to_resume(config, lambda folder: folder.last_checkpoint)
    if folder is None:
        logger.warning("nothing to resume in %s: starting a new training", config.project_dir)
        return None
    if is_main_process():
        lock.enter_context(only_writer(folder.path))
    checkpoint = read_checkpoint(folder.last_checkpoint)
    saved = checkpoint.get("identity")
    if not isinstance(saved, Mapping):
        raise ValueError(f"cannot resume from {folder.last_checkpoint}: it is corrupt (it has no 'identity')")
    for name, value in identity(config, data_hash).items():
        if name not in saved:  # an option that is newer than the checkpoint
            continue
        if name == "data" and saved[name] != value:
            raise ValueError(
                f"cannot resume {folder.path}: it was trained on different data than '{config.dataset}'"
            )
        if saved[name] != value:
            raise ValueError(
                f"cannot resume {folder.path}: its {name} is {saved[name]!r}, not {value!r}; to resume it with its "
                f"own options: {launcher()} train --config {folder.config} --resume"
            )
    return ResumedRun(folder, checkpoint)
