"""What the page shows, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from chop import __version__
from chop.ir import MaseGraph
from chop.page.curves import curves_of
from chop.page.figures import figures_of
from chop.page.measure import Measured
from chop.page.nodes import Findings, nodes_of
from chop.page.search_front import search_of
from chop.page.tensors import histogram_of

Info = Mapping[str, Any]


@dataclass(frozen=True)
class Known:
    """What other passes and the run know; empty where they were not asked."""

    title: str
    cost: Info
    cost_before: Info | None
    comparison: Info
    sensitivity: Info
    curves: Sequence[Info]
    search: Info | None
    run: Info


def make_document(graph: MaseGraph, original: MaseGraph | None, measured: Measured, known: Known) -> dict[str, Any]:
    """All that the page shows, in dicts, lists, numbers and strings."""
    before = {} if original is None else {meta.node.name: meta for meta in original.annotated_metas()}
    findings = Findings(
        measured=measured,
        before=before,
        cost=known.cost["by_node"],
        cost_before=(known.cost_before or {}).get("by_node", {}),
        error=known.comparison.get("by_node", {}),
        alone=known.sensitivity.get("alone", {}),
        all_but=known.sensitivity.get("all_but", {}),
    )
    return {
        "title": known.title,
        "subtitle": _subtitle(known, len(graph.fx_graph.nodes)),
        "figures": [
            asdict(each) for each in figures_of(known.cost, known.cost_before, known.comparison, known.run)
        ],
        "nodes": [each.as_dict() for each in nodes_of(graph, findings)],
        "histograms": [histogram_of(summary) for summary in measured.summaries],
        "notes": _notes(graph, measured, known),
        "curves": [asdict(each) for each in curves_of(known.curves)],
        "search": search_of(known.search),
        "footer": f"Made by chop {__version__} on {datetime.now().astimezone():%Y-%m-%d %H:%M}. "
        "Drawn with dagre and uPlot (MIT licence).",
    }


def _subtitle(known: Known, num_nodes: int) -> str:
    run, data = known.run, known.run.get("data")
    parts = [
        run.get("model") if run.get("model") != known.title else None,
        data.get("title") if isinstance(data, Mapping) else run.get("dataset"),
        run.get("name"),
        f"{num_nodes} nodes",
    ]
    return " · ".join(str(part) for part in parts if part)


def _notes(graph: MaseGraph, measured: Measured, known: Known) -> dict[str, str]:
    """A sentence for each part that needs one."""
    shapes = [list(t.shape) for m in graph.metas() if m.node.op == "placeholder" for t in m.results.values()]
    one_sample = {shape[0] for shape in shapes if shape} == {1}
    told = f"run on inputs of {', '.join(str(shape) for shape in shapes)}."
    notes = {"cost": f"Costs are for one sample: a {told}" if one_sample else f"Costs are for one {told}"}
    if measured.num_samples:
        notes["values"] = f"Activations are those of {measured.num_samples} rows."
    first, threshold = known.comparison.get("first_below"), known.comparison.get("threshold_db")
    if known.comparison:
        where = f"first falls under {threshold:g} dB at {first}" if first else f"stays above {threshold:g} dB"
        notes["error"] = f"The signal-to-noise ratio of the outputs {where}."
    if known.sensitivity.get("formats"):
        notes["sensitivity"] = f"Sensitivity: to {known.sensitivity['formats']}."
    return notes
