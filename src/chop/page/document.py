"""The content of the page, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from chop import __version__
from chop.display.figures import figure
from chop.display.numbers import counted
from chop.ir import MaseGraph
from chop.page.figure_cards import figure_cards
from chop.page.hardware import describe_circuit
from chop.page.nodes import ResultsByNode, describe_nodes
from chop.page.search_log import read_search_log
from chop.page.tensor_values import TensorValues
from chop.page.tensors import describe_histogram
from chop.page.training_curves import training_curves

Info = Mapping[str, Any]

NODE_FIGURES = (
    "average_weight_bits",
    "average_activation_bits",
    "macs",
    "flops",
    "bitops",
    "parameters",
    "weight_bits",
    "activation_bits",
    "intensity",
    "energy_pj",
    "time_s",
    "sqnr_db",
    "max_error",
    "cosine",
    "output_sqnr_db",
    "loss_change",
    "accuracy_change",
)
"""The key figures that the page shows for single nodes."""


MAX_UNKNOWN_NAMED = 5


@dataclass(frozen=True)
class ReportInputs:
    """The results of passes and of the run that the page shows; empty where there are none."""

    title: str
    cost: Info
    cost_before: Info | None
    comparison: Info
    sensitivity: Info
    curves: Sequence[Info]
    search: Info | None
    run: Info
    hardware: Info | None = None
    """The manifest of the circuit."""


def make_document(
    graph: MaseGraph, original: MaseGraph | None, values: TensorValues, inputs: ReportInputs
) -> dict[str, Any]:
    """Return everything that the page shows as dicts, lists, numbers and strings."""
    results = ResultsByNode(
        values=values,
        original={} if original is None else {meta.node.name: meta for meta in original.annotated_metas()},
        cost=inputs.cost["by_node"],
        cost_before=(inputs.cost_before or {}).get("by_node", {}),
        error=inputs.comparison.get("by_node", {}),
        alone=inputs.sensitivity.get("alone", {}),
        all_but=inputs.sensitivity.get("all_but", {}),
    )
    cards = figure_cards(inputs.cost, inputs.cost_before, inputs.comparison, inputs.run)
    return {
        "title": inputs.title,
        "subtitle": _subtitle(inputs, len(graph.fx_graph.nodes)),
        "figures": [asdict(card) for card in cards],
        "node_figures": {name: _node_figure(name) for name in NODE_FIGURES},
        "nodes": [node.as_dict() for node in describe_nodes(graph, results)],
        "histograms": [describe_histogram(summary) for summary in values.summaries],
        "notes": _notes(graph, values, inputs),
        "curves": [asdict(plot) for plot in training_curves(inputs.curves)],
        "search": read_search_log(inputs.search),
        "hardware": describe_circuit(inputs.hardware),
        "exports": inputs.run.get("exports", []),
        "footer": f"Created by chop {__version__} on {datetime.now().astimezone():%Y-%m-%d %H:%M}. "
        "Drawn with dagre and uPlot (MIT licence).",
    }


def _node_figure(name: str) -> dict[str, str]:
    shown = figure(name)
    return {"title": shown.column_heading, "kind": shown.kind, "help": shown.help}


def _subtitle(inputs: ReportInputs, num_nodes: int) -> str:
    run, data = inputs.run, inputs.run.get("data")
    parts = [
        run.get("model") if run.get("model") != inputs.title else None,
        data.get("title") if isinstance(data, Mapping) else run.get("dataset"),
        run.get("name"),
        counted(num_nodes, "node"),
    ]
    return " · ".join(str(part) for part in parts if part)


def _notes(graph: MaseGraph, values: TensorValues, inputs: ReportInputs) -> dict[str, str]:
    """Return one sentence for each section that needs an explanation."""
    notes = {"cost": f"{_cost_note(graph)}{_unknown_note(inputs.cost)}"}
    if inputs.search is not None and inputs.cost_before is None:
        notes["search"] = "The key figures, the graph and the layers are those of the original model."
    if values.num_samples:
        notes["values"] = f"Activations were measured on {counted(values.num_samples, 'row')}."
    if inputs.comparison:
        first, threshold = inputs.comparison.get("first_below"), inputs.comparison.get("threshold_db")
        where = f"first falls below {threshold:g} dB at {first}" if first else f"stays above {threshold:g} dB"
        notes["error"] = f"The SQNR of the node outputs {where}."
    if inputs.sensitivity.get("formats"):
        notes["sensitivity"] = f"Sensitivity was measured with {inputs.sensitivity['formats']}."
    return notes


def _unknown_note(cost: Info) -> str:
    """Return how bit operations are counted, and which nodes the totals leave out."""
    convention, unknown = cost.get("convention"), list(cost.get("unknown", ()))
    note = f" Bit operations are counted as '{convention}'." if convention else ""
    names = ", ".join(unknown[:MAX_UNKNOWN_NAMED]) + (", ..." if len(unknown) > MAX_UNKNOWN_NAMED else "")
    nodes = counted(len(unknown), "node")
    return note + (f" The totals leave out {nodes} of unknown cost: {names}." if unknown else "")


def _cost_note(graph: MaseGraph) -> str:
    """Return which forward pass the costs are for, with the shapes of its inputs."""
    shapes = [list(t.shape) for m in graph.metas() if m.node.op == "placeholder" for t in m.results.values()]
    run = "sample" if {shape[0] for shape in shapes if shape} == {1} else "forward pass"
    return f"Costs are for one {run}, with inputs of shape {', '.join(str(shape) for shape in shapes)}."
