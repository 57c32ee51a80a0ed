"""Write a report of a graph as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.display.progress import Stage
from chop.files import write_bytes
from chop.garbage import without_garbage_collection
from chop.ir import MaseGraph
from chop.page.document import ReportInputs, make_document
from chop.page.render import render
from chop.page.tensor_values import measure_tensors
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.compare_graphs import compare_graphs_analysis_pass
from chop.passes.graph.analysis.estimate_cost import estimate_cost_analysis_pass
from chop.statistics.batches import limited_batches

Info = Mapping[str, Any]
Batches = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class ReportHtmlArgs:
    """Arguments of `report_html`."""

    path: Path
    """The file to write."""
    title: str | None = None
    """The title of the page; None: the name of the model's class."""
    original: MaseGraph | None = None
    """The graph before the transforms, to compare with."""
    input_generator: Batches | None = None
    """Batches by argument name, such as `{"x": tensor}`; without them no activations are shown."""
    num_samples: int = 256
    """The largest number of rows to run."""
    sensitivity: Info | None = None
    """The `info` of `sensitivity`."""
    cost: Info | None = None
    """The `info` of `estimate_cost`; None: the pass is run."""
    cost_args: Info | None = None
    """The arguments of `estimate_cost`, which is also run on the original; None: its defaults."""
    comparison: Info | None = None
    """The `info` of `compare_graphs`; None: the pass is run if there are an original and batches."""
    curves: Sequence[Info] | None = None
    """The lines of `metrics.jsonl`."""
    search: Info | None = None
    """The log of a search: `study`, `metrics` and `trials`."""
    run: Info | None = None
    """The summary of the run that created the graph."""
    hardware: Info | None = None
    """The manifest of the graph's circuit, as `emit_verilog` writes it."""

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")


@register_pass("report_html", kind="analysis")
def report_html_analysis_pass(graph: MaseGraph, args: ReportHtmlArgs) -> PassResult:
    """Write one self-contained HTML file: graph, layers, histograms, cost, error, training curves, search.

    `info` has its `path`, its size in `bytes`, and `document`: everything that the page shows, as plain data. The
    graph is run on `num_samples` rows in evaluation mode and is not changed.
    """
    graph.annotated_metas()
    with without_garbage_collection():
        document = _document(graph, args)
        with Stage("writing the page"):
            page = render(document).encode()
    args.path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(args.path, page)
    return graph, {"path": str(args.path), "bytes": len(page), "document": document}


def _document(graph: MaseGraph, args: ReportHtmlArgs) -> dict[str, Any]:
    batches = _batches(args)
    inputs = ReportInputs(
        title=args.title or type(graph.model).__name__,
        cost=_cost(graph, args) if args.cost is None else args.cost,
        cost_before=None if args.original is None else _cost(args.original, args),
        comparison=_comparison(graph, args, batches),
        sensitivity=args.sensitivity or {},
        curves=args.curves or (),
        search=args.search,
        run=args.run or {},
        hardware=args.hardware,
    )
    values = measure_tensors(graph, batches, args.num_samples)
    with Stage("describing the nodes"):
        return make_document(graph, args.original, values, inputs)


def _cost(graph: MaseGraph, args: ReportHtmlArgs) -> Info:
    return estimate_cost_analysis_pass(graph, args.cost_args)[1]


def _batches(args: ReportHtmlArgs) -> Batches | None:
    """Return the batches, as a list if they can be iterated only once."""
    given = args.input_generator
    if given is None or iter(given) is not given:
        return given
    return list(limited_batches(given, args.num_samples))


def _comparison(graph: MaseGraph, args: ReportHtmlArgs, batches: Batches | None) -> Info:
    if args.comparison is not None or args.original is None or batches is None:
        return args.comparison or {}
    return compare_graphs_analysis_pass(args.original, graph, batches, num_samples=args.num_samples)[1]
