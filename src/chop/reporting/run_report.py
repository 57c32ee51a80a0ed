"""`ch report`: all that is known of a run, in one page and in a few lines."""

from __future__ import annotations

import logging
import os
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from chop.config import ReportConfig, TransformConfig
from chop.files import read_json
from chop.ir import MaseGraph
from chop.passes.graph import (
    compare_graphs_analysis_pass,
    estimate_cost_analysis_pass,
    report_html_analysis_pass,
    sensitivity_analysis_pass,
)
from chop.registry import UnknownNameError
from chop.runs.run import Run, TestBatches, open_run
from chop.statistics.deviation import decibel_text
from chop.training.threads import fitting_threads

logger = logging.getLogger(__name__)

MOST_WORK = 2e12
"""MACs that sensitivity may take: about a minute. Of larger models it is measured on fewer rows."""
MOST_PRINTED = 40
EIGHT_BITS = {
    f"{role}_{key}": value
    for role in ("data_in", "weight", "bias")
    for key, value in (("width", 8), ("scale", "float"))
}
"""What the layers of a model without formats are tried in."""
Info = Mapping[str, Any]


def report(config: ReportConfig) -> Path:
    """Look into a run and write `report.html` into its folder, or where it is told to; the file is returned."""
    run = open_run(config)
    path = config.output or run.folder.report
    _check_place(path)
    search = read_json(run.folder.search_log) if run.folder.search_log.is_file() else None
    batches = run.batches(config.samples)
    with fitting_threads(run.experiment, batches.batch_size):
        document = _look(run, batches, path, search, with_sensitivity=not config.no_sensitivity)
    _tell(document)
    if config.open:
        _open(path)
    return path


def _check_place(path: Path) -> None:
    """Before all the work: whether the page can be written where it is to be."""
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder; --output names a file, as {path / 'report.html'}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise ValueError(f"cannot write in '{there}'; --output names another file")


def _look(
    run: Run, batches: TestBatches, path: Path, search: Info | None, *, with_sensitivity: bool
) -> dict[str, Any]:
    """Run the passes and write the page; what it shows is returned."""
    graph, original, rows = run.graph, run.original, batches.num_samples
    passes = run.config.passes if isinstance(run.config, TransformConfig) else {}
    how = passes.get("estimate_cost")
    _, cost = estimate_cost_analysis_pass(graph, how)
    comparison = None
    if original is not None:
        watched = Watched(batches, rows, "comparing with the original")
        _, comparison = compare_graphs_analysis_pass(original, graph, watched, num_samples=rows)
    _, info = report_html_analysis_pass(
        graph,
        {
            "path": path,
            "title": run.config.model.rpartition(":")[2],
            "original": original,
            "input_generator": Watched(batches, rows, "profiling"),
            "num_samples": rows,
            "sensitivity": _sensitivity(run, batches, cost) if with_sensitivity else None,
            "cost": cost,
            "cost_args": how,
            "comparison": comparison,
            "curves": _curves(run),
            "search": search,
            "run": {**run.summary, "name": run.name},
        },
    )
    document: dict[str, Any] = info["document"]
    return document


@dataclass(frozen=True)
class Watched:
    """Batches that tell on a terminal how far they are."""

    batches: Iterable[Mapping[str, Any]]
    num_samples: int
    what: str

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        done = 0
        for batch in self.batches:
            self._show(f"{self.what}: {done} of {self.num_samples} rows")
            yield batch
            done += len(next(iter(batch.values())))
        self._show("")

    def _show(self, text: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def _sensitivity(run: Run, batches: TestBatches, cost: Info) -> Info | None:
    """How much each layer alone hurts: in the formats of the run or, of a plain model, in eight bits."""
    graph = run.graph if run.original is None else run.original
    if any(meta.quantized is not None for meta in graph.metas()):
        return None  # what it was before is gone: its layers would be compared with themselves
    formats, told = _formats_to_try(run, graph)
    if not formats:
        return None
    rows = _affordable(graph, cost, batches.num_samples)
    if rows < 1:
        logger.warning("the model is too large to measure the sensitivity of its layers: they are left out")
        return None
    given = Watched(batches, rows, "sensitivity")
    pairs = zip(given, batches.labels.split(batches.batch_size), strict=False)
    _, info = sensitivity_analysis_pass(graph, {**formats, "labelled_batches": pairs, "num_samples": rows})
    return {**info, "formats": f"{told}, on {rows} rows"}


def _formats_to_try(run: Run, graph: MaseGraph) -> tuple[dict[str, Any], str]:
    if isinstance(run.config, TransformConfig) and "quantize" in run.config.passes:
        return dict(run.config.passes["quantize"]), "the formats of the run"
    if not any(meta.quantizable for meta in graph.annotated_metas()):
        return {}, ""
    return {"config": {"name": "integer", **EIGHT_BITS}}, "integers of 8 bits, scaled to their maxima"


def _affordable(graph: MaseGraph, cost: Info, wanted: int) -> int:
    """So many rows that trying all layers takes no more than `MOST_WORK`."""
    metas = graph.annotated_metas()
    shapes = (tensor.shape for meta in metas if meta.node.op == "placeholder" for tensor in meta.results.values())
    num_rows = next((shape[0] for shape in shapes if shape), 1)
    work = cost["total"]["macs"] / num_rows * sum(meta.quantizable for meta in metas)
    return min(wanted, int(MOST_WORK / max(work, 1)))


def _curves(run: Run) -> Sequence[Info]:
    """What the run logged; of one that only went on with the weights of a training, what that logged."""
    load = run.config.load_name
    if run.action == "train" or load is None or not load.exists():
        return run.metrics
    try:
        return open_run(load).metrics
    except (ValueError, UnknownNameError, OSError):  # the weights are from elsewhere
        return run.metrics


def _tell(document: Mapping[str, Any]) -> None:
    """The layers and the key figures, in the terminal."""
    layers = [node for node in document["nodes"] if node["quantizable"]]
    rows = [_row(node) for node in layers[:MOST_PRINTED]]
    headers = ("layer", "op", "weight bits", "data bits", "MACs", "bit operations", "SQNR")
    align = ("left", "left", *["right"] * 5)
    print("\n" + tabulate(rows, headers, disable_numparse=True, colalign=align) if rows else "\nno layers")
    if len(layers) > MOST_PRINTED:
        print(f"... and {len(layers) - MOST_PRINTED} more, in the page")
    print(f"\n{document['notes']['cost']}")
    for figure in document["figures"]:
        was = "" if figure["before"] in (None, figure["value"]) else f"  (was {_number(figure['before'])})"
        print(f"{figure['title']}: {_number(figure['value'])}{_UNITS.get(figure['kind'], '')}{was}")


_UNITS = {"memory": " bits", "energy": " pJ", "decibel": " dB"}


def _row(node: Mapping[str, Any]) -> tuple[str, ...]:
    cost, error = node["cost"] or {}, node["error"] or {}
    numbers = (node["weight_bits"], node["data_bits"], cost.get("macs"), cost.get("bitops"))
    return (node["name"], node["op"], *map(_number, numbers), decibel_text(error.get("sqnr_db")))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.5g}"


def _open(path: Path) -> None:
    if not webbrowser.open(path.absolute().as_uri()):
        print(f"no browser was found; open {path.absolute()}")
