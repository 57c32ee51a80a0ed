"""A run that is over, opened again: its options and numbers, its data, its model and its graph."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, fx

from chop.actions.config import ACTIONS, ActionConfig, RunConfig, TransformConfig
from chop.actions.setting import Setting, prepare
from chop.actions.transform import annotated_graph
from chop.ir import MaseGraph
from chop.ir.graph.storage.nodes import plain_call
from chop.nn.quantized import QuantizedLayer, plain_layer
from chop.options import read_options
from chop.passes.graph.utils import deepcopy_mase_graph, get_parent_name
from chop.plugins import load_plugin
from chop.registry import UnknownNameError, closest
from chop.tools.checkpoint_load import RUN_FILE, RUN_WEIGHTS, weights_of_run

logger = logging.getLogger(__name__)

SUMMARY, METRICS = "summary.json", "metrics.jsonl"
KEEPERS = ("train", "transform")  # actions that always leave a model behind
NUM_SHOWN = 5  # runs named in an error message
DEPTH = 3  # how far below the folder of a run the paths lie that commands print


@dataclass(frozen=True)
class TestBatches:
    """The first test rows as batches `{argument: tensor}`; each walk through them begins anew."""

    __test__ = False  # no test case, whatever pytest makes of its name

    features: Tensor
    labels: Tensor
    """The classes of all rows, in the same order."""
    argument: str
    batch_size: int

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return ({self.argument: rows} for rows in self.features.split(self.batch_size))

    def labelled(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """The batches, each with the classes of its rows."""
        return zip(self, self.labels.split(self.batch_size), strict=True)

    @property
    def num_samples(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Run:
    """What a run left behind. Data, model and graphs are loaded when they are first asked for."""

    folder: Path
    action: str
    config: ActionConfig
    summary: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def setting(self) -> Setting:
        """The data, and the model as the run left it: its graph, its best weights, or those that it tested."""
        if isinstance(self.config, TransformConfig) and self.config.transform.style == "module":
            raise ValueError(f"run '{self.folder}' changed the model layer by layer: there is no graph to look at")
        if self.action not in KEEPERS and not any((self.folder / place).exists() for place in RUN_WEIGHTS):
            return self._started_from
        return prepare(replace(self.config, load_name=weights_of_run(self.folder), load_type="auto"))

    @cached_property
    def graph(self) -> MaseGraph:
        """The graph of the model as the run left it, annotated with one sample, so that costs are those of one."""
        return annotated_graph(self.config, self.setting, num_rows=1)

    @cached_property
    def original(self) -> MaseGraph | None:
        """The graph before the passes of a transform run, of others without its formats; None if it has none."""
        if self.action != "transform":
            model = _without_formats(self.graph)
            return (
                None
                if model is None
                else annotated_graph(self.config, replace(self.setting, model=model), num_rows=1)
            )
        load = self.config.load_name
        if load is not None and not load.exists():
            logger.warning("there is nothing to compare with: '%s', which the run began from, is gone", load)
            return None
        return annotated_graph(self.config, self._started_from, num_rows=1)

    @cached_property
    def _started_from(self) -> Setting:
        """The data, and the model as it was before the run."""
        data = self.__dict__["setting"].data if "setting" in self.__dict__ else None
        return prepare(self.config, data)

    def batches(self, num_samples: int) -> TestBatches:
        """The first `num_samples` rows of the test part; all of them, if there are fewer."""
        rows, (argument, *_) = self.setting.data.splits.test, self.setting.model_info.inputs
        return TestBatches(rows.features[:num_samples], rows.labels[:num_samples], argument, self.config.batch_size)


def open_run(run: RunConfig | Path | str) -> Run:
    """The run that a configuration names, or that is in a folder, with its plug-ins loaded."""
    if not isinstance(run, RunConfig):
        run = RunConfig(run=Path(run), project_dir=Path())
    folder = find_folder(run)
    summary = _read_summary(folder)
    action = str(summary.get("action"))
    config_class = ACTIONS.get(action)
    if config_class is None or not issubclass(config_class, ActionConfig):
        raise ValueError(f"{folder / SUMMARY} is damaged: there are no runs of '{action}'")
    config = read_options(config_class, _read_toml(folder / RUN_FILE), str(folder / RUN_FILE))
    for plugin in config.plugins:
        load_plugin(plugin)
    return Run(folder, action, config, summary, _read_metrics(folder / METRICS))


def find_folder(config: RunConfig) -> Path:
    """The folder of the run that is named by its path, or by its name in the project; else the newest one."""
    if config.run is None:
        return _newest(config.project_dir)
    places = [config.run, config.project_dir / config.run]
    for place in places:
        for folder in (place, *list(place.absolute().parents)[:DEPTH]) if place.exists() else ():
            if _is_run(folder):
                return folder
    if any(place.exists() for place in places):
        raise ValueError(
            f"'{config.run}' is no folder of a run: that holds {RUN_FILE}, {SUMMARY} and {METRICS}, as ch train, "
            "ch test and ch transform leave them"
        )
    raise UnknownNameError(f"there is no run '{config.run}', {_nearest(str(config.run), config.project_dir)}")


def list_runs(project_dir: Path) -> list[Path]:
    """The folders of all runs in a project, newest first; also of those that were stopped."""
    if not project_dir.is_dir():
        return []
    return sorted((folder for folder in project_dir.iterdir() if _is_run(folder)), key=_age, reverse=True)


def _without_formats(graph: MaseGraph) -> fx.GraphModule | None:
    """A copy of a graph's model with all numbers in float; None if they are anyway."""
    if all(meta.quantized is None for meta in graph.metas()):
        return None
    plain = deepcopy_mase_graph(graph)
    for meta in plain.metas():
        quantized, node = meta.quantized, meta.node
        if isinstance(quantized, QuantizedLayer):
            parent, name = get_parent_name(str(node.target))
            setattr(plain.model.get_submodule(parent), name, plain_layer(quantized))
        else:
            node.op, node.target = plain_call(node.op, node.target)
    plain.model.recompile()
    return plain.model


def _is_run(folder: Path) -> bool:
    return (folder / RUN_FILE).is_file()


def _age(folder: Path) -> tuple[int, list[Any]]:
    """When a run began; of two at the same time the name tells, in which _10 comes after _9."""
    parts = re.split(r"(\d+)", folder.name)
    return (folder / RUN_FILE).stat().st_mtime_ns, [int(part) if part.isdigit() else part for part in parts]


def _newest(project_dir: Path) -> Path:
    finished = (folder for folder in list_runs(project_dir) if (folder / SUMMARY).is_file())
    newest = next(finished, None)
    if newest is None:
        raise ValueError(f"there is no finished run in '{project_dir}'; --project-dir names another folder")
    return newest


def _nearest(name: str, project_dir: Path) -> str:
    names = [folder.name for folder in list_runs(project_dir)]
    if not names:
        return f"and none in '{project_dir}'; --project-dir names another folder"
    text = closest(name, names)
    if text.startswith("did you mean") or len(names) <= NUM_SHOWN:
        return text
    return f"the newest are: {', '.join(names[:NUM_SHOWN])}"


def _read_summary(folder: Path) -> dict[str, Any]:
    file = folder / SUMMARY
    if not file.is_file():
        raise ValueError(f"run '{folder}' has no {SUMMARY}: it was stopped, or still goes on")
    return _read_object(file.read_bytes(), str(file))


def _read_metrics(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    found = []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            found.append(_read_object(line, f"{file}, line {number},"))
        except ValueError as error:  # a crash or a full disk leaves such a line; the others are as good as before
            logger.warning("%s; it is left out", error)
    return found


def _read_object(content: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{where} is damaged: it holds no object")
    return value


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
