"""The folder of a run, and what every run leaves in it."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from chop import __version__
from chop.actions.config import ActionConfig
from chop.actions.setting import Setting
from chop.toml import to_table, write_toml

TASK_NAMES = {"cls": "classification"}
PACKAGES = ("torch", "numpy", "lightning-fabric")


def run_prefix(config: ActionConfig) -> str:
    """`{model}_{task}_{dataset}_`; of a model or data set that is a file, its own name."""
    model = re.sub(r"[^\w.-]+", "-", config.model.rpartition(":")[2])
    dataset = re.sub(r"[^\w.-]+", "-", Path(config.dataset.rpartition(":")[2]).stem)
    return f"{model}_{TASK_NAMES[config.task]}_{dataset}_"


def launcher() -> str:
    """How the user called the command line, for commands to copy."""
    return os.environ.get("CHOP_LAUNCHER", "ch")


def make_folder(project_dir: Path, name: str) -> Path:
    """A new folder; the second of a day ends in _2, and none is ever written over."""
    folder, number = project_dir / name, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
            folder = folder.with_name(f"{name}_{number}")
        except OSError as error:
            raise OSError(f"cannot write in {project_dir}: {error.strerror}") from error


def make_run_folder(config: ActionConfig) -> Path:
    """The folder of a new run, with its configuration: `ch ... --config run.toml` repeats it."""
    folder = make_folder(config.project_dir, run_prefix(config) + date.today().isoformat())
    for part in ("software", "hardware"):
        (folder / part).mkdir()
    write_config(config, folder)
    return folder


def write_config(config: ActionConfig, folder: Path) -> None:
    table = to_table(anywhere(config))
    kept = {key: value for key, value in table.items() if key not in ("config", "resume") and value != {}}
    write_text(folder / "run.toml", write_toml(kept))


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    write_text(folder / "summary.json", json.dumps(summary, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """The whole text, or what was there before."""
    with whole(path) as partial:
        partial.write_text(text, encoding="utf-8")


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Another path to write to, which takes the place of `path` at the end, or is gone after an error."""
    partial = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def describe_run(action: str, config: ActionConfig, setting: Setting) -> dict[str, Any]:
    """What identifies a run: its names, the data to the last bit, the model's size and all versions."""
    info = setting.data.dataset_info
    return {
        "action": action,
        "model": config.model,
        "dataset": config.dataset,
        "task": TASK_NAMES[config.task],
        "project": config.project,
        "seed": config.seed,
        "data": {
            "title": info.title,
            "version": info.version,
            "provenance": info.provenance,
            "sha256": setting.data_hash,
        },
        "parameters": sum(parameter.numel() for parameter in setting.model.parameters()),
        "versions": {
            "chop": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
    }


def anywhere(config: ActionConfig) -> ActionConfig:
    """The configuration with whole paths for what is read, so that it can be used from any folder."""

    def whole(path: Path | None) -> Path | None:
        return None if path is None else path.absolute()

    return replace(
        config,
        model=_whole_reference(config.model),
        dataset=_whole_reference(config.dataset),
        load_name=whole(config.load_name),
        data_path=whole(config.data_path),
        plugins=tuple(path.absolute() for path in config.plugins),
    )


def _whole_reference(name: str) -> str:
    """`path/to/net.py:Net` with the whole path; other names are as they are."""
    place, colon, what = name.partition(":")
    return f"{Path(place).absolute()}{colon}{what}" if Path(place).is_file() else name


def write_metrics(folder: Path, lines: Sequence[Mapping[str, float]]) -> None:
    """`metrics.jsonl` of a run whose numbers are all known at once."""
    write_text(folder / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
