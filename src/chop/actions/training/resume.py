"""Finding the run that goes on, and making sure that it is the same run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.actions.config import TrainConfig
from chop.actions.run_folder import anywhere, launcher, run_prefix
from chop.actions.training.checkpoint import LAST, read_checkpoint
from chop.toml import to_table

CHECKPOINTS = Path("software") / "training_ckpts"
# What decides the weights of a run; max_epochs and max_steps may grow.
DECISIVE = (
    "model",
    "dataset",
    "data_options",
    "batch_size",
    "seed",
    "learning_rate",
    "weight_decay",
    "training_optimizer",
    "lr_scheduler",
    "trainer_precision",
    "accumulate_grad_batches",
)


@dataclass(frozen=True)
class Resumed:
    """A run that goes on."""

    folder: Path
    content: Mapping[str, Any]  # of its last checkpoint


def identity(config: TrainConfig, data_hash: str) -> dict[str, Any]:
    """What must be the same when a run is resumed."""
    table = to_table(anywhere(config))
    return {**{name: table[name] for name in DECISIVE}, "data": data_hash}


def find_run(config: TrainConfig, data_hash: str) -> Resumed:
    """The run whose run.toml is the configuration file, else the latest one of this model and data set."""
    folder = _beside_config(config) or _latest(config)
    content = read_checkpoint(folder / CHECKPOINTS / LAST)
    now, then = identity(config, data_hash), content["identity"]
    for name, value in now.items():
        if name == "data" and then[name] != value:
            raise ValueError(f"cannot resume {folder}: its data are not those of '{config.dataset}' now")
        if then[name] != value:
            raise ValueError(
                f"cannot resume {folder}: its {name} is {then[name]!r}, not {value!r}; with the options of that "
                f"run: {launcher()} train --config {folder / 'run.toml'} --resume"
            )
    return Resumed(folder, content)


def _beside_config(config: TrainConfig) -> Path | None:
    folder = config.config.parent if config.config is not None else None
    return folder if folder is not None and (folder / CHECKPOINTS / LAST).is_file() else None


def _latest(config: TrainConfig) -> Path:
    prefix = run_prefix(config)
    files = [
        folder / CHECKPOINTS / LAST
        for folder in (config.project_dir.iterdir() if config.project_dir.is_dir() else ())
        if folder.name.startswith(prefix) and (folder / CHECKPOINTS / LAST).is_file()
    ]
    if not files:
        raise ValueError(f"there is nothing to resume: {config.project_dir} has no {prefix}* with a {LAST}")
    return max(files, key=lambda file: file.stat().st_mtime).parents[2]
