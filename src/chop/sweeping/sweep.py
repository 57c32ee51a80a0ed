"""The engine of `ch sweep`: quantise all layers alike, evaluate, and compare the settings."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chop.config import SweepConfig
from chop.cost import estimate
from chop.cost.estimate import COST_CONVENTION
from chop.dataset.splits import first_rows
from chop.display.numbers import counted
from chop.display.progress import StatusLine
from chop.ir import MaseGraph
from chop.ir.graph.meta import annotated_batch_size
from chop.runs import Experiment, RunFolder
from chop.sweeping.results import Row, SweepResults, write_results
from chop.sweeping.settings import Setting, read_roles, read_settings
from chop.sweeping.table import COSTS
from chop.training.budget import Budget, Choice, Correct
from chop.training.evaluation import correct_on, evaluate_on
from chop.training.parallel import map_in_processes
from chop.training.threads import limit_threads_for
from chop.transforming.pipeline import Passes, pass_messages_from, run_passes, with_recovery


def sweep(config: SweepConfig) -> RunFolder:
    """Evaluate the model of `config` in every setting and return the run folder with the table and the plot."""
    start = time.perf_counter()
    settings = read_settings(config)
    read_roles(config)  # reports mistakes before anything is loaded
    bench = Bench.load(config)
    bench.experiment.log_data()
    bench.experiment.warn_if_untrained()
    bench.experiment.warn_if_quantized()
    baseline = bench.measure(None)
    with pass_messages_from(logging.ERROR):
        rows = list(_measure_all(config, bench, settings))
    results = SweepResults(baseline, rows, f"{config.model}, data: {bench.experiment.data.dataset_info.title}")
    results = replace(results, choice=bench.choose(results))
    folder = RunFolder.create_for(config)
    try:
        write_results(results, config, bench.passes, folder)
        _write_summary(config, bench.experiment, results, folder, time.perf_counter() - start)
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)  # an incomplete run cannot be used
        raise
    return folder


@dataclass(frozen=True)
class Bench:
    """What settings are measured on: a model with its data and its annotated graph."""

    config: SweepConfig
    experiment: Experiment
    original: MaseGraph
    ops: tuple[str, ...]
    """The ops that are quantised: those that multiply and have weights."""

    @classmethod
    def load(cls, config: SweepConfig) -> Bench:
        experiment = Experiment.load(config)
        original = experiment.annotated_graph()
        costs = estimate(original.metas(), COST_CONVENTION).by_node
        metas = [meta for meta in original.metas() if meta.quantizable and "weight" in meta.args]
        ops = dict.fromkeys(meta.mase_op for meta in metas if costs[meta.node.name].macs)
        if not ops:
            raise ValueError(f"model '{config.model}' has no layers with weights to quantise")
        return cls(config, experiment, original, tuple(ops))

    def passes(self, setting: Setting) -> Passes:
        """Return the passes of `ch transform` that quantise the model like this."""
        by_op = {op: {"config": setting.config(read_roles(self.config))} for op in self.ops}
        calibrate = {} if self.config.calibrate == "none" else {"calibrate": {"method": self.config.calibrate}}
        passes: Passes = {"quantize": {"by": "type", **by_op}, **calibrate}
        return with_recovery(passes) if self.config.recover_accuracy else passes

    def measure(self, setting: Setting | None) -> Row:
        """Return accuracy, loss and cost in a setting; None measures the model as it is."""
        graph = self._graph(setting)
        device, model, splits = self.experiment.device, graph.model, self.experiment.data.splits
        split, rows = ("validation", splits.val) if len(splits.val.labels) else ("training", splits.train)
        with limit_threads_for(self.experiment, self.config.batch_size):
            test = evaluate_on(splits.test, model, self.experiment, device).metrics
            rows = first_rows(rows, self.config.max_samples or len(rows.labels))
            chosen = evaluate_on(rows, model, self.experiment, device).metrics
        cost = estimate(graph.metas(), COST_CONVENTION).total
        costs = {name: float(getattr(cost, name)) for name in COSTS}
        costs["bitops"] /= annotated_batch_size(graph.metas())
        choice = {f"{split}_accuracy": chosen["accuracy"]}
        return Row(setting, test, costs, choice, self.experiment.starts_quantized, len(splits.test.labels))

    def correct(self, setting: Setting | None) -> Correct:
        """Return what says which predictions are right in a setting; None: as the model is."""
        model = self._graph(setting).model
        return lambda rows: correct_on(rows, model, self.experiment)

    def choose(self, results: SweepResults) -> Choice[Row] | None:
        """Return the cheapest setting that keeps the budget of `max_drop`, also on rows held back."""
        splits, max_drop = self.experiment.data.splits, self.config.max_drop or 0.0
        num_rows = self.config.max_samples or max(len(splits.val.labels), len(splits.train.labels))
        with limit_threads_for(self.experiment, self.config.batch_size), pass_messages_from(logging.ERROR):
            budget = Budget.on(max_drop, splits, num_rows, self.correct(None), trains=False)
            return budget.choose(results.candidates(max_drop), lambda row: self.correct(row.setting))

    def _graph(self, setting: Setting | None) -> MaseGraph:
        if setting is None:
            return self.original
        return run_passes(self.passes(setting), self.original, self.experiment).graph


def _measure_all(config: SweepConfig, bench: Bench, settings: Sequence[Setting]) -> Iterator[Row]:
    line = StatusLine()
    workers = min(config.workers or 1, len(settings))
    rows = map_in_processes(_load, config, settings, workers) if workers > 1 else map(bench.measure, settings)
    for number, setting in enumerate(settings, 1):
        bits = counted(setting.number_format.width, "bit")
        line.draw(f"setting {number} of {len(settings)}: {setting.label}, {bits}")
        yield next(rows)
    line.close()


def _load(config: SweepConfig) -> Callable[[Setting], Row]:
    return Bench.load(config).measure


def _write_summary(
    config: SweepConfig, experiment: Experiment, results: SweepResults, folder: RunFolder, seconds: float
) -> None:
    choice = results.choice
    best = None if choice is None else choice.candidate
    summary: dict[str, Any] = {
        **experiment.describe("sweep"),
        "checkpoint": None if config.load_name is None else str(config.load_name),
        "baseline": results.baseline.table_row,
        "rows": [row.table_row for row in results.rows],
        "best": None if best is None else f"{best.label}, {counted(best.bits, 'bit')}",
        "chosen_by": results.chosen_by,
        **({} if choice is None else {"budget": choice.summary}),
        "seconds": round(seconds, 3),
    }
    if best is not None:
        named = {"before": results.baseline, "after": best}
        summary["test"] = dict(best.metrics)
        costs = {name: dict(row.costs) for name, row in named.items()}
        summary["cost"] = {"samples": 1, "convention": COST_CONVENTION, **costs}
    folder.write_summary(summary)
