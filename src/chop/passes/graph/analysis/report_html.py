"""Write a report of a graph as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chop.display.progress import Stage
from chop.files import write_bytes
from chop.ir import MaseGraph
from chop.page.document import make_document
from chop.page.facts import Info, PageFacts
from chop.page.render import render
from chop.page.tensor_values import measure_tensors
from chop.passes.base import PassResult, register_pass
from chop.passes.data_args import Batches, DataArgs
from chop.passes.graph.analysis.compare_graphs import compare_graphs_analysis_pass
from chop.passes.graph.analysis.cost import estimate_cost_analysis_pass
from chop.statistics.batches import limited_batches


@dataclass(frozen=True, kw_only=True)
class ReportHtmlArgs(PageFacts, DataArgs):
    """Arguments of `report_html`."""

    path: Path
    """The file to write."""
    cost_args: Info | None = None
    """The arguments of `estimate_cost`, which is also run on the original; None: its defaults."""


@register_pass("report_html", kind="analysis")
def report_html_analysis_pass(graph: MaseGraph, args: ReportHtmlArgs) -> PassResult:
    """Write one self-contained HTML file: graph, layers, histograms, cost, error, training curves, search.

    `info` has its `path`, its size in `bytes`, and `document`: everything that the page shows, as plain data. The
    graph is run on `num_samples` rows in evaluation mode and is not changed.
    """
    graph.annotated_metas()
    document = _document(graph, args)
    with Stage("writing the page"):
        page = render(document).encode()
    args.path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(args.path, page)
    return graph, {"path": str(args.path), "bytes": len(page), "document": document}


def _document(graph: MaseGraph, args: ReportHtmlArgs) -> dict[str, Any]:
    batches = _batches(args)
    facts = replace(
        args,
        cost=args.cost or _cost(graph, args),
        cost_before=args.cost_before or (None if args.original is None else _cost(args.original, args)),
        comparison=args.comparison or _comparison(graph, args, batches),
    )
    values = measure_tensors(graph, batches, args.num_samples)
    with Stage("describing the nodes"):
        return make_document(graph, values, facts)


def _cost(graph: MaseGraph, args: ReportHtmlArgs) -> Info:
    return estimate_cost_analysis_pass(graph, args.cost_args)[1]


def _batches(args: ReportHtmlArgs) -> Batches | None:
    """Return the batches, as a list if they can be iterated only once."""
    given = args.input_generator
    if given is None or iter(given) is not given:
        return given
    return list(limited_batches(given, args.num_samples))


def _comparison(graph: MaseGraph, args: ReportHtmlArgs, batches: Batches | None) -> Info | None:
    if args.original is None or batches is None:
        return None
    return compare_graphs_analysis_pass(args.original, graph, batches, num_samples=args.num_samples)[1]
