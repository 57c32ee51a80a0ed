"""The engine of `ch report`: run the passes on a finished run, write the page and print a summary."""

from __future__ import annotations

import csv
import logging
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.config import ReportConfig, TransformConfig
from chop.display.figures import figure
from chop.display.launcher import option_name
from chop.display.numbers import counted, table_decibels, table_number
from chop.display.progress import StatusLine
from chop.display.tables import plain_table
from chop.files import CorruptFileError, read_json, read_text, read_toml
from chop.formats.float import Float
from chop.hardware.emit import MANIFEST
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import annotated_batch_size
from chop.nn.quantized import forget_rounded
from chop.page.search_log import read_search_log
from chop.passes.graph import (
    compare_graphs_analysis_pass,
    estimate_cost_analysis_pass,
    report_html_analysis_pass,
    sensitivity_analysis_pass,
)
from chop.registry import UnknownNameError
from chop.reporting.table_reports import GridTable, command_of_best_setting, write_grid_report, write_sweep_report
from chop.runs import RunFolder
from chop.runs.folder import output_file
from chop.runs.listing import find_grid
from chop.runs.run import Run, TestBatches, open_run
from chop.runs.weights import share_equal_weights
from chop.searching.evaluation.transform_config import command_of_best
from chop.training.terminal import print_grid
from chop.training.threads import limit_threads_for
from chop.transforming.pipeline import run_passes

logger = logging.getLogger(__name__)

MAX_SENSITIVITY_MACS = 2e12
"""MACs that measuring sensitivity may take, about a minute; larger models are measured on fewer rows."""
PAGE_SUFFIXES = (".html", ".htm")
MAX_LAYERS_PRINTED = 40
EIGHT_BITS = {
    f"{role}_{key}": value
    for role in ("data_in", "weight", "bias")
    for key, value in (("width", 8), ("scale", "float"))
}
"""The formats in which the sensitivity of an original model is measured."""
Info = Mapping[str, Any]


def report(config: ReportConfig) -> Path:
    """Write the page of a run, grid or sweep, print its summary, and return the path of the page."""
    grid = find_grid(config.run, config.project_dir)
    if grid is not None:
        _check_nothing_is_measured(config)
        path = page_to_write(config.output, grid)
        print_grid_report(write_grid_report(grid, path))
    elif (run := open_run(config.run, config.project_dir, config.accelerator)).action == "sweep":
        _check_nothing_is_measured(config)
        path = page_to_write(config.output, run.folder)
        write_sweep_report(run.folder, path)
        print_sweep_report(run.folder)
    else:
        path = page_to_write(config.output, run.folder)
        document = write_report(
            run,
            path,
            num_samples=config.samples,
            with_sensitivity=not config.no_sensitivity,
            share_weights=True,
        )
        print_summary(document)
    if config.open and not webbrowser.open(path.absolute().as_uri()):
        print(f"no browser was found; open {path.absolute()}")
    return path


def _check_nothing_is_measured(config: ReportConfig) -> None:
    for name in ("samples", "no_sensitivity"):
        if getattr(config, name) != getattr(ReportConfig, name):
            raise ValueError(f"{option_name(name)} has no effect on the report of a sweep or of a grid")


def write_report(
    run: Run,
    path: Path | None = None,
    *,
    num_samples: int = 256,
    with_sensitivity: bool = True,
    share_weights: bool = False,
) -> dict[str, Any]:
    """Write the page of a run to `path`, by default into its folder, and return the document that it shows.

    Activations, errors and sensitivity are measured on the first `num_samples` rows of the test split. Sensitivity
    takes longest. With `share_weights`, the weights that the graph and its original have in common are in memory
    once; nobody else may change them then.
    """
    path = page_to_write(path, run.folder)
    search = _read_search_log(run) if run.folder.search_log.is_file() else None
    batches = run.test_batches(num_samples)
    with limit_threads_for(run.experiment, batches.batch_size):
        chosen = None if search is None else _chosen_graph(run)
        graph, original = (run.graph, run.original) if chosen is None else (chosen, run.graph)
        if share_weights and original is not None:
            share_equal_weights(graph.model, original.model)
        search = search and {**search, "shows_best": chosen is not None}
        return _run_passes(run, graph, original, batches, path, search, with_sensitivity)


def _chosen_graph(run: Run) -> MaseGraph | None:
    """Return the graph of the trial that a search chose; None if it has other weights or other layers."""
    best = run.summary.get("best")
    if not isinstance(best, Mapping) or "epochs" in best or not run.folder.best_config.is_file():
        return None
    table = read_toml(run.folder.best_config)
    options, passes = table.get("model_options", {}), table.get("passes", {})
    if options != dict(run.config.model_options) or not passes:
        return None
    return run_passes(passes, run.graph, run.experiment).graph


def _read_search_log(run: Run) -> dict[str, Any]:
    """Return the log of a search with its best trial, after checking it, so that an error names the file."""
    path = run.folder.search_log
    log = {**read_json(path), "best": _best_trial(run), "quantized_start": run.summary.get("quantized_start")}
    try:
        read_search_log(log)
    except ValueError as error:
        raise CorruptFileError(f"{path}: {error}") from error
    return log


def _best_trial(run: Run) -> dict[str, Any] | None:
    """Return the best trial of a search: its number, why it is the best, and the command that makes its model."""
    best = run.summary.get("best")
    if not isinstance(best, Mapping) or not isinstance(best.get("trial"), int):
        return None
    number = best["trial"]
    command = command_of_best(run.folder, number, best)
    return {"number": number, "rule": str(run.summary.get("rule", "")), "command": command}


def page_to_write(output: Path | None, folder: RunFolder) -> Path:
    """Return the path of the page of a run: in its folder, or as `output` says.

    Raises an error before the measurements if the page cannot be written there.
    """
    path = output_file(folder.report if output is None else output, folder.report.name)
    if path.suffix.lower() not in PAGE_SUFFIXES:  # a misplaced argument must not overwrite another kind of file
        raise ValueError(f"{option_name('output')} must end in .html, got '{path}'")
    return path


def _run_passes(
    run: Run,
    graph: MaseGraph,
    original: MaseGraph | None,
    batches: TestBatches,
    path: Path,
    search: Info | None,
    with_sensitivity: bool,
) -> dict[str, Any]:
    rows = batches.num_samples
    circuit = run.folder.hardware / MANIFEST
    passes = run.config.passes if isinstance(run.config, TransformConfig) else {}
    cost_args = passes.get("estimate_cost")
    _, cost = estimate_cost_analysis_pass(graph, cost_args)
    comparison = None
    if original is not None:
        shown = BatchesWithProgress(batches, rows, "comparing with the original")
        _, comparison = compare_graphs_analysis_pass(original, graph, shown, num_samples=rows)
        forget_rounded(original.model, graph.model)
    _, info = report_html_analysis_pass(
        graph,
        {
            "path": path,
            "title": run.config.model.rpartition(":")[2],
            "original": original,
            "input_generator": BatchesWithProgress(batches, rows, "profiling"),
            "num_samples": rows,
            "sensitivity": _measure_sensitivity(graph, original, batches, cost) if with_sensitivity else None,
            "cost": cost,
            "cost_args": cost_args,
            "comparison": comparison,
            "curves": _training_log(run),
            "search": search,
            "run": {**run.summary, "name": run.name},
            "hardware": read_json(circuit) if circuit.is_file() else None,
        },
    )
    document: dict[str, Any] = info["document"]
    return document


@dataclass(frozen=True)
class BatchesWithProgress:
    """Batches, with or without labels, that show on a terminal how many rows are done."""

    batches: Iterable[Any]
    num_samples: int
    activity: str

    def __iter__(self) -> Iterator[Any]:
        line, done = StatusLine(), 0
        try:
            for batch in self.batches:
                line.draw(f"{self.activity}: {done} of {counted(self.num_samples, 'row')}")
                yield batch
                inputs = batch[0] if isinstance(batch, tuple) else batch
                done += len(next(iter(inputs.values())))
        finally:  # also if the user of the batches needs no more of them
            line.close()


def _measure_sensitivity(
    graph: MaseGraph, original: MaseGraph | None, batches: TestBatches, cost: Info
) -> Info | None:
    """Measure the effect of quantising each layer alone; None if there are no layers, or the model is too large."""
    plain = graph if original is None else original
    if any(meta.quantized is not None for meta in plain.metas()):
        return None  # without the plain model, layers would be compared with themselves
    formats, description = _formats_to_measure(graph, original)
    if not formats:
        return None
    metas = plain.annotated_metas()
    macs_per_row = cost["total"]["macs"] / annotated_batch_size(metas) * sum(meta.quantizable for meta in metas)
    rows = min(batches.num_samples, int(MAX_SENSITIVITY_MACS / max(macs_per_row, 1)))
    if rows < 1:
        logger.warning("the model is too large to measure the sensitivity of its layers; the report leaves it out")
        return None
    shown = BatchesWithProgress(batches.labelled(), rows, "measuring sensitivity")
    _, info = sensitivity_analysis_pass(plain, {**formats, "labelled_batches": shown, "num_samples": rows})
    return {**info, "formats": f"{description}, on {counted(rows, 'row')}"}


def _formats_to_measure(graph: MaseGraph, original: MaseGraph | None) -> tuple[dict[str, Any], str]:
    """Return the formats as arguments of `sensitivity`, and their description: of the run, else 8-bit integers."""
    metas = (graph if original is None else original).annotated_metas()
    names = {meta.node.name for meta in metas}
    if original is not None and any(meta.node.name in names and _rounds(meta) for meta in graph.metas()):
        return {"quantized": graph}, "the formats of the run"
    if not any(meta.quantizable for meta in metas):
        return {}, ""
    return {"config": {"name": "integer", **EIGHT_BITS}}, "8-bit integers, scaled to the largest magnitude"


def _rounds(meta: NodeMeta) -> bool:
    """Return whether a node has a number format other than float, which pruned layers have."""
    formats = meta.quantized.formats.values() if meta.quantized is not None else ()
    return any(not isinstance(number_format, Float) for number_format in formats)


def _training_log(run: Run) -> Sequence[Info]:
    """Return the log of the run; if it only loaded trained weights, the log of their training."""
    load = run.config.load_name
    if run.action == "train" or load is None or not load.exists():
        return run.metrics
    try:
        return open_run(load).metrics
    except (ValueError, UnknownNameError, OSError):  # the weights do not belong to a run
        return run.metrics


def print_grid_report(table: GridTable) -> None:
    """Print the table of a grid and its best combination."""
    print_grid(table.title, table.headers, table.cells)
    if table.best is not None:
        print(f"best test accuracy: {table.options(table.best)}")


def print_sweep_report(folder: RunFolder) -> None:
    """Print the table of a sweep, and the command that quantises the model to the best setting."""
    if folder.sweep_table.is_file():
        rows = list(csv.reader(read_text(folder.sweep_table).splitlines()))
        print("\n" + plain_table(rows[0], rows[1:], ["right"] * len(rows[0])) if rows else "")
    if folder.sweep_config.is_file():
        print(f"\nquantise the model to the best setting: {command_of_best_setting(folder)}")


def print_summary(document: Info) -> None:
    """Print the best trial of a search, the layers and the key figures of a report."""
    best = (document.get("search") or {}).get("best")
    if best:
        print(f"\nbest: trial {best['number']}, {best['rule']}\n      {best['command']}\n")
        print("its layers:" if document["search"]["shows_best"] else "original model:")
    layers = [node for node in document["nodes"] if node["quantizable"]]
    rows = []
    for node in layers[:MAX_LAYERS_PRINTED]:
        cost, error = node["cost"] or {}, node["error"] or {}
        values = (node["bits_per_weight"], node["bits_per_input"], cost.get("macs"), cost.get("bitops"))
        sqnr = table_decibels(error.get("sqnr_db"))
        rows.append((node["name"], node["op"], *map(table_number, values), sqnr))
    names = ("average_weight_bits", "average_activation_bits", "macs", "bitops", "sqnr_db")
    headers = ("layer", "op", *(figure(name).column_title for name in names))
    align = ("left", "left", *["right"] * len(names))
    print("\n" + plain_table(headers, rows, align) if rows else "\nno layers")
    if len(layers) > MAX_LAYERS_PRINTED:
        print(f"... and {len(layers) - MAX_LAYERS_PRINTED} more in the report")
    print(f"\n{document['notes']['cost']}")
    for card in document["figures"]:
        text = figure(card["name"]).text
        before = "" if card["before"] in (None, card["value"]) else f"  (was {text(card['before'])})"
        print(f"{card['title']}: {text(card['value'])}{before}")
