"""A finished run, opened again: its options, numbers, data, model and graph."""

from __future__ import annotations

import csv
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from chop.config import ACTIONS, LATEST, ActionConfig, RunConfig, TransformConfig
from chop.config.settings import read_settings
from chop.display.figures import figure
from chop.display.html import html_heading, html_image, html_table
from chop.display.tables import Table
from chop.files import read_text, read_toml
from chop.ir import MaseGraph
from chop.registry import closest
from chop.runs.experiment import Experiment, without_formats
from chop.runs.folder import RunFolder
from chop.runs.listing import find_run
from chop.runs.results import SPLITS, Result, read_results

logger = logging.getLogger(__name__)

ACTIONS_WITH_MODEL = ("train", "transform")  # whose runs always keep a model


@dataclass(frozen=True)
class TestBatches:
    """The first rows of the test split as batches `{argument: tensor}`; every iteration starts at the first row."""

    __test__ = False  # not a test case, although pytest would take its name for one

    features: Tensor
    labels: Tensor
    """The classes of all rows, in the same order."""
    arguments: Callable[[Tensor], dict[str, Tensor]]
    batch_size: int

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return map(self.arguments, self.features.split(self.batch_size))

    def labelled(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Yield the batches, each with the classes of its rows."""
        return zip(self, self.labels.split(self.batch_size), strict=True)

    @property
    def num_samples(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run. Data, model and graphs are loaded on first use."""

    folder: RunFolder
    action: str
    config: ActionConfig
    summary: Mapping[str, Any]
    metrics: Sequence[Mapping[str, Any]]

    def __repr__(self) -> str:
        return f"<Run '{self.folder}': {self.action} {self.config.model} on {self.config.dataset}>"

    def _repr_html_(self) -> str:
        """Return what the run was, its results and its plots, for notebooks."""
        parts = [html_heading(f"{self.action} {self.config.model} on {self.config.dataset}: {self.folder}")]
        scores = _scores(self.summary)
        first: Mapping[str, float] = next(iter(scores.values()), {})
        metrics = [metric for metric in first if all(metric in each for each in scores.values())]
        rows = [(name, *(f"{each[metric]:.4f}" for metric in metrics)) for name, each in scores.items()]
        parts += [html_table(("", *(figure(metric).title for metric in metrics)), rows)] if rows else []
        for path in (self.folder.front_table, self.folder.sweep_table):
            if path.is_file():
                headers, *cells = csv.reader(read_text(path).splitlines())
                parts.append(html_table(headers, cells))
        plots = (self.folder.curves_plot, self.folder.sweep_plot, self.folder.front_plot)
        return "".join([*parts, *(html_image(path) for path in plots if path.is_file())])

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def results(self) -> Sequence[Result]:
        """The models that the run measured: settings of a sweep, the front of a search, before and after, ..."""
        return read_results(self.folder, self.config, self.summary)

    def table(self, *columns: str) -> Table:
        """Return the results as a table for papers: `run.table("accuracy", "weight_bits").to_latex()`.

        Columns are key figures; by default all those that are known of every row.
        """
        results = self.results
        known = dict.fromkeys(name for result in results for name in result.values)
        for name in columns:
            if name not in known:
                raise ValueError(f"run '{self.folder}' has no results called '{name}'; {closest(name, known)}")
        names = columns or tuple(name for name in known if all(name in result.values for result in results))
        rows = [(result.label, *map(result.values.get, names)) for result in results]
        splits = {result.split for result in results}
        split = f", {SPLITS[splits.pop()]} rows" if len(splits) == 1 else ""
        return Table(("model", *names), rows, f"{self.config.model}, data: {self.summary['data']['title']}{split}")

    @cached_property
    def experiment(self) -> Experiment:
        """The data, and the resulting model: the graph or the best weights of the run, or what it tested."""
        if isinstance(self.config, TransformConfig) and self.config.transform.style == "module":
            raise ValueError(f"run '{self.folder.path}' changed the model layer by layer: it has no graph to show")
        if self.action not in ACTIONS_WITH_MODEL and not self.folder.keeps_model:
            return self._initial
        return Experiment.load(replace(self.config, load_name=self.folder.weights, load_type="auto"))

    @property
    def model(self) -> nn.Module:
        """The resulting model."""
        return self.experiment.model

    @cached_property
    def graph(self) -> MaseGraph:
        """The graph of the resulting model, annotated with one sample, so that costs are per sample."""
        return self.experiment.annotated_graph(num_rows=1)

    @cached_property
    def original(self) -> MaseGraph | None:
        """The graph before the passes of a transform; for other runs the graph without its formats, if any."""
        if self.action != "transform":
            model = without_formats(self.graph)
            return None if model is None else self.experiment.with_model(model).annotated_graph(num_rows=1)
        load = self.config.load_name
        if load is not None and not load.exists():
            logger.warning("the run cannot be compared with its original: '%s' no longer exists", load)
            return None
        return self._initial.annotated_graph(num_rows=1)

    @cached_property
    def _initial(self) -> Experiment:
        """The data, and the model before the run."""
        loaded = self.__dict__.get("experiment")  # the cached property, without loading it
        return Experiment.load(self.config, None if loaded is None else loaded.data)

    def test_batches(self, num_samples: int) -> TestBatches:
        """Return the first `num_samples` rows of the test split, or all of them if there are fewer."""
        rows = self.experiment.data.splits.test
        features, labels = rows.features[:num_samples], rows.labels[:num_samples]
        return TestBatches(features, labels, self.experiment.arguments, self.config.batch_size)


def _scores(summary: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the metrics in a summary: by split, or before and after a transform."""
    test = summary.get("test") or {}
    found = {name: summary[name] for name in ("train", "validation", "baseline") if name in summary}
    by_model = any(isinstance(each, Mapping) for each in test.values())
    found |= {f"test, {name}": each for name, each in test.items()} if by_model else {"test": test} if test else {}
    return {
        name: {metric: value for metric, value in each.items() if isinstance(value, float)}
        for name, each in found.items()
    }


def open_run(
    run: Path | str | None = LATEST,
    project_dir: Path | str = RunConfig.project_dir,
    accelerator: str | None = None,
) -> Run:
    """Open a run by its path, or by its name in `project_dir`; None and `latest`: the newest finished run.

    A path to a file or folder inside a run folder also opens the run. Its model is loaded onto the device of
    `accelerator`, by default that of the run. The plug-ins of the run are loaded;
    Python files that were not run before must first be confirmed with `chop.trust`.
    """
    if not isinstance(run, str | os.PathLike | None):
        raise ValueError(f"open_run needs the name or the path of a run, got {type(run).__name__}")
    folder = find_run(None if run is None else Path(run), Path(project_dir))
    summary = folder.read_summary()
    action = str(summary.get("action"))
    config_class = ACTIONS.get(action)
    if config_class is None or not issubclass(config_class, ActionConfig):
        raise ValueError(f"{folder.summary} is corrupt: unknown action '{action}'")
    table = read_toml(folder.config)
    settings = read_settings(action, {}, file=folder.config, table=table, caller=str(folder.config))
    settings.prepare()
    config = cast(ActionConfig, settings.config())
    if accelerator is not None:
        config = replace(config, accelerator=accelerator)
    return Run(folder, action, config, summary, folder.read_metrics())
