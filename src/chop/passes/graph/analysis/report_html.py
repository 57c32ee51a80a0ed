"""Write a report of a graph as one HTML file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from chop.display.progress import Stage
from chop.files import write_bytes
from chop.ir import MaseGraph
from chop.page.document import make_document
from chop.page.facts import Info, PageFacts
from chop.page.render import render
from chop.page.tensor_values import measure_tensors
from chop.passes.base import DataArgs, PassResult, register_pass
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
    batches, original = args.input_generator, args.original
    if batches is not None and iter(batches) is batches:  # it can be iterated only once
        batches = list(limited_batches(batches, args.num_samples))
    cost, cost_before, comparison = args.cost, args.cost_before, args.comparison
    if not cost:
        cost = estimate_cost_analysis_pass(graph, args.cost_args)[1]
    if original is not None and not cost_before:
        cost_before = estimate_cost_analysis_pass(original, args.cost_args)[1]
    if original is not None and batches is not None and not comparison:
        comparison = compare_graphs_analysis_pass(original, graph, batches, num_samples=args.num_samples)[1]
    facts = replace(args, cost=cost, cost_before=cost_before, comparison=comparison)
    values = measure_tensors(graph, batches, args.num_samples)
    with Stage("describing the nodes"):
        document = make_document(graph, values, facts)
    with Stage("writing the page"):
        page = render(document).encode()
    args.path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(args.path, page)
    return graph, {"path": str(args.path), "bytes": len(page), "document": document}
