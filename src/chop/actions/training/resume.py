"""Finding the run that goes on, and making sure that it is the same run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.actions.config import ActionConfig, TrainConfig
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
    folder = run_to_resume(config, CHECKPOINTS / LAST)
    if folder is None:
        raise ValueError(
            f"there is nothing to resume: {config.project_dir} has no {run_prefix(config)}* with a {LAST}"
        )
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


def run_to_resume(
    config: ActionConfig, mark: Path, fits: Callable[[Path], bool] = lambda folder: True
) -> Path | None:
    """The run beside the configuration file, else the latest one of this model and data set that fits.

    `mark` is a file or a folder that is in it, and that tells when it was last worked on.
    """
    if config.config is not None and (config.config.parent / mark).exists():
        return config.config.parent
    folders = config.project_dir.iterdir() if config.project_dir.is_dir() else ()
    prefix = run_prefix(config)
    found = [folder for folder in folders if folder.name.startswith(prefix) and (folder / mark).exists()]
    return max(filter(fits, found), key=lambda folder: (folder / mark).stat().st_mtime, default=None)
