"""The folder of a run: the name of every file in it, how it is created, and how its common files are read."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Self

from chop.config import ActionConfig
from chop.config.settings import write_options
from chop.display.launcher import option_name
from chop.files import (
    MAX_RECORD_BYTES,
    open_regular,
    parse_json,
    read_file,
    read_json,
    remove_temporary_files,
    write_json,
    write_text,
)
from chop.ir.graph.storage import is_saved_quantized
from chop.task_names import GGUF, HUGGING_FACE, ONNX, TASKS, model_folder

logger = logging.getLogger(__name__)

STARTED, MAX_STARTED_LENGTH = "# started ", 100
"""The first line of `run.toml`: when the run was started or resumed."""


class _File:
    """A file or folder of a run, by its path in the folder of the run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """A run on disk. No other class spells the names of its files."""

    path: Path

    # Every run
    config = _File("run.toml")
    """The options of the run: `ch ACTION --config run.toml` repeats it."""
    summary = _File("summary.json")
    """What the run was and its results, as JSON; written at its end."""
    metrics = _File("metrics.jsonl")
    """Numbers logged during the run, one JSON object per line."""
    report = _File("report.html")

    # Training and testing
    checkpoints = _File("software/training_ckpts")
    last_checkpoint = _File("software/training_ckpts/last.ckpt")
    best_checkpoint = _File("software/training_ckpts/best.ckpt")
    tensorboard = _File("software/tensorboard")
    curves_plot = _File("curves.png")
    confusion_plot = _File("confusion.png")

    # A grid of training runs
    grid = _File("grid.json")
    """The rows of a grid, as JSON."""
    grid_table = _File("grid.csv")
    grid_plot = _File("grid.png")

    # Sweeping
    sweep_table = _File("sweep.csv")
    sweep_plot = _File("sweep.png")
    sweep_config = _File("best.toml")
    """The best setting, as options of `ch transform`."""

    # Transforming
    transform = _File("software/transform")
    graph = _File("software/transform/transformed_ckpt")
    """The folder of the saved graph, with its number formats."""
    transformed_weights = _File("software/transform/transformed.pt")
    """The `state_dict` of a model that was transformed module by module."""
    pass_results = _File("software/transform/passes.json")
    """What the passes of a transform returned, as JSON."""

    # Hardware
    hardware = _File("hardware")
    """The circuit of the run's model, its test bench, scripts and reports."""

    # Searching
    search = _File("search")
    journal = _File("search/study.journal")
    best_config = _File("search/best.toml")
    front_table = _File("search/pareto.csv")
    front_plot = _File("search/pareto.png")
    search_log = _File("search/log.json")
    """Every trial of a search, as JSON; the report page reads it."""
    trials_table = _File("search/trials.parquet")

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    def exported(self, name: str) -> Path:
        """Return the path of the run's model as a file for other tools."""
        return self.path / "export" / name

    # State

    @property
    def _markers(self) -> tuple[Path, ...]:
        """Files of which every run has at least one; the first one that exists was written at the start."""
        return self.config, self.grid, self.metrics, self.summary

    @property
    def is_run(self) -> bool:
        """Whether the folder holds a run, complete or not."""
        return any(file.is_file() for file in self._markers)

    @property
    def stored_start(self) -> float | None:
        """The start as it is written in the options of the run, in seconds since 1970; None in earlier runs."""
        with suppress(OSError, ValueError), open_regular(self.config) as file:
            if (line := file.readline(MAX_STARTED_LENGTH).decode()).startswith(STARTED):
                return datetime.fromisoformat(line.removeprefix(STARTED).strip()).timestamp()
        return None

    @property
    def started_at(self) -> float | None:
        """When the run was started or resumed, in seconds since 1970; None if the folder holds no run.

        If the run does not say it, it is the time of a file, which copying may change.
        """
        if (stored := self.stored_start) is not None:
            return stored
        for marker in self._markers:
            with suppress(OSError):  # it is missing, or was deleted a moment ago
                return marker.stat().st_mtime
        return None

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete and can be opened."""
        return self.config.is_file() and self.summary.is_file()

    @property
    def keeps_model(self) -> bool:
        return self.graph.exists() or self.best_checkpoint.exists()

    @property
    def weights(self) -> Path:
        """The model that the run keeps: the folder of a saved graph, else the best checkpoint."""
        if not self.keeps_model:
            names = " nor ".join(str(path.relative_to(self.path)) for path in (self.graph, self.best_checkpoint))
            raise ValueError(f"run '{self.path}' keeps no model: it has neither {names}")
        return self.graph if self.graph.exists() else self.best_checkpoint

    @property
    def keeps_quantized(self) -> bool:
        """Whether the run keeps a model with number formats."""
        return self.graph.exists() and is_saved_quantized(self.graph)

    # Writing

    @classmethod
    def create(cls, project_dir: Path, name: str) -> Self:
        """Make a new folder; the second one of the same name ends in `_2`, and none is overwritten."""
        path, number = project_dir / name, 1
        while True:
            try:
                path.mkdir(parents=True)
                return cls(path)
            except FileExistsError:
                number += 1
                path = path.with_name(f"{name}_{number}")
            except OSError as error:
                raise OSError(f"cannot write in {project_dir}: {error.strerror}") from error

    @classmethod
    def create_for(cls, config: ActionConfig) -> Self:
        """Make the folder of a new run, with its options in it."""
        name = config.name or run_prefix(config) + date.today().isoformat()
        for path in config.project_dir.glob("*/"):
            cls(path).remove_temporary_files(only_stale=True)  # of commands that were killed and never resumed
        folder = cls.create(config.project_dir, name)
        (folder.path / "software").mkdir()
        folder.write_config(config)
        return folder

    def discard(self) -> None:
        """Delete the folder of a run that failed before it had a result."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_config(self, config: ActionConfig) -> None:
        options = write_options(with_absolute_paths(config))
        write_text(self.config, f"{STARTED}{datetime.now(UTC).isoformat()}\n{options}")

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_json(self.summary, summary)

    def add_export(self, entry: Mapping[str, Any]) -> None:
        """Add an exported file to the summary; an earlier export to the same file is replaced."""
        summary = self.read_summary()
        others = [each for each in summary.get("exports", []) if each["file"] != entry["file"]]
        self.write_summary({**summary, "exports": [*others, entry]})

    def write_metrics(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Write the metrics of a run that knows all of them at once."""
        write_text(self.metrics, "".join(json.dumps(line) + "\n" for line in lines))

    def remove_temporary_files(self, *, only_stale: bool = False) -> None:
        """Delete the temporary files that a killed process left; with `only_stale`, none that may be in use."""
        for folder in (self.path, self.search, self.checkpoints, self.transform, self.graph):
            remove_temporary_files(folder, only_stale=only_stale)

    # Reading

    def read_summary(self) -> dict[str, Any]:
        if not self.summary.is_file():
            raise ValueError(f"run '{self.path}' has no {self.summary.name}: it was stopped, or is still running")
        return read_json(self.summary, MAX_RECORD_BYTES)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of the log; corrupt lines, for example after a full disk, are skipped with a warning."""
        if not self.metrics.is_file():
            return []
        found = []
        for number, line in enumerate(read_file(self.metrics).splitlines(), 1):
            try:
                found.append(parse_json(line, f"{self.metrics}, line {number},"))
            except ValueError as error:
                logger.warning("%s; the line is skipped", error)
        return found


def output_file(given: Path, name: str) -> Path:
    """Return `given`, or a file called `name` in it if it is a folder.

    Raises ValueError if the folder of the file does not exist or cannot be written.
    """
    path = given / name if given.is_dir() else given
    folder = path.absolute().parent
    if not folder.exists():
        raise ValueError(f"the folder '{folder}' does not exist; create it, or choose another file")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(f"cannot write in '{folder}'; choose another file with {option_name('output')}")
    return path


def run_prefix(config: ActionConfig) -> str:
    """Return `{model}_{task}_{dataset}_`, with the plain name of a model or data set that is given as a file."""
    model = re.sub(
        r"[^\w.-]+", "-", Path(config.model.rpartition(":")[2]).name.removesuffix(GGUF).removesuffix(ONNX)
    )
    dataset = re.sub(r"[^\w.-]+", "-", Path(config.dataset.rpartition(":")[2]).stem)
    return f"{model}_{TASKS[config.task].title}_{dataset}_"


def with_absolute_paths(config: ActionConfig) -> ActionConfig:
    """Return the configuration with absolute paths to its inputs, so that it works from any folder."""
    given: dict[str, Any] = {name: getattr(config, name, None) for name in ("load_name", "teacher", "data_path")}
    return replace(
        config,
        **{name: path.absolute() for name, path in given.items() if path is not None},
        model=_absolute_reference(config.model),
        dataset=_absolute_reference(config.dataset),
        plugins=tuple(path.absolute() for path in config.plugins),
    )


def _absolute_reference(name: str) -> str:
    """Make the path in `path/to/net.py:Net` or `hf/FOLDER` absolute; other names stay as they are."""
    if model_folder(name).is_dir():
        return f"{HUGGING_FACE}{model_folder(name).absolute()}"
    path, colon, rest = name.partition(":")
    return f"{Path(path).absolute()}{colon}{rest}" if Path(path).is_file() else name
