"""The content of the page, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from chop import __version__
from chop.display.figures import figure
from chop.display.numbers import counted
from chop.ir import MaseGraph
from chop.page.facts import Info, PageFacts
from chop.page.nodes import describe_nodes
from chop.page.search_log import read_search_log
from chop.page.tensor_values import TensorValues
from chop.page.tensors import describe_histogram
from chop.page.training_curves import training_curves

AREA = ("lut", "ff", "dsp")
COSTS = (
    "average_weight_bits",
    "average_activation_bits",
    "weight_bits",
    "macs",
    "bitops",
    "peak_activation_bits",
    "energy_pj",
)
"""The key figures at the top of the page, besides accuracy and error."""

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


def make_document(graph: MaseGraph, values: TensorValues, facts: PageFacts) -> dict[str, Any]:
    """Return everything that the page shows as dicts, lists, numbers and strings; the cost must be known."""
    assert facts.cost is not None, "the pass runs estimate_cost"
    title, run = facts.title or type(graph.model).__name__, facts.run or {}
    return {
        "title": title,
        "subtitle": _subtitle(title, run, len(graph.fx_graph.nodes)),
        "figures": _figure_cards(facts.cost, facts.cost_before, facts.comparison or {}, run),
        "node_figures": {
            name: {"title": figure(name).column_heading, "kind": figure(name).kind, "help": figure(name).help}
            for name in NODE_FIGURES
        },
        "nodes": describe_nodes(graph, values, facts),
        "histograms": [describe_histogram(summary) for summary in values.summaries],
        "notes": _notes(graph, values, facts),
        "curves": training_curves(facts.curves or ()),
        "search": read_search_log(facts.search),
        "hardware": _describe_circuit(facts.hardware),
        "exports": run.get("exports", []),
        "footer": f"Created by chop {__version__} on {datetime.now().astimezone():%Y-%m-%d %H:%M}. "
        "Drawn with dagre and uPlot (MIT licence).",
    }


def _figure_cards(cost: Info, cost_before: Info | None, comparison: Info, run: Info) -> list[dict[str, Any]]:
    """Return all key figures that are known, accuracy, cost and error, with the values of the original model."""
    total, total_before = cost["total"], (cost_before or {}).get("total", {})
    known = [name for name in COSTS if isinstance(total.get(name), int | float)]
    costs = [_card(name, total[name], total_before.get(name)) for name in known]
    errors = list((comparison.get("by_node") or {}).values())
    return [*_accuracy(run), *costs, *(_card("output_sqnr_db", error["sqnr_db"]) for error in errors[-1:])]


def _card(name: str, value: float, before: float | None = None) -> dict[str, Any]:
    shown = figure(name)
    about = {"name": shown.name, "title": shown.heading, "help": shown.help}
    return {**about, "value": value, "before": before, "kind": shown.kind, "better": shown.better}


def _accuracy(run: Info) -> list[dict[str, Any]]:
    """Return the accuracy on the test split; a transform run has it after and before its passes."""
    test = run.get("test")
    if not isinstance(test, Mapping):
        return []
    after, before = (test.get(when) for when in ("after", "before"))
    value = after.get("accuracy") if isinstance(after, Mapping) else test.get("accuracy")
    value_before = before.get("accuracy") if isinstance(before, Mapping) else None
    return [_card("accuracy", value, value_before)] if isinstance(value, int | float) else []


def _describe_circuit(manifest: Info | None) -> dict[str, Any] | None:
    """Return timing and area of the circuit and of its parts; None without a circuit."""
    if manifest is None:
        return None
    try:
        return {
            "latency": int(manifest["latency"]),
            "interval": int(manifest["interval"]),
            **{name: int(manifest["estimate"][name]) for name in AREA},
            "units": [
                {
                    "node": " + ".join(map(str, unit["nodes"])),
                    "strategy": str(unit["strategy"]),
                    **{name: int(unit["estimate"][name]) for name in AREA},
                    **{name: int(unit[name]) for name in ("start", "latency", "interval")},
                }
                for unit in manifest["units"]
            ],
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the manifest of the circuit is corrupt: {type(error).__name__}: {error}") from error


def _subtitle(title: str, run: Info, num_nodes: int) -> str:
    data = run.get("data")
    parts = [
        run.get("model") if run.get("model") != title else None,
        data.get("title") if isinstance(data, Mapping) else run.get("dataset"),
        run.get("name"),
        counted(num_nodes, "node"),
    ]
    return " · ".join(str(part) for part in parts if part)


def _notes(graph: MaseGraph, values: TensorValues, facts: PageFacts) -> dict[str, str]:
    """Return one sentence for each section that needs an explanation."""
    shapes = [list(t.shape) for m in graph.metas() if m.node.op == "placeholder" for t in m.results.values()]
    run = "sample" if {shape[0] for shape in shapes if shape} == {1} else "forward pass"
    about_inputs = f"Costs are for one {run}, with inputs of shape {', '.join(map(str, shapes))}."
    notes = {"cost": f"{about_inputs}{_unknown_note(facts.cost or {})}"}
    shows_best = facts.search is not None and facts.search.get("shows_best")
    if facts.search is not None and (shows_best or facts.cost_before is None):
        of = f"trial {facts.search['best']['number']}" if shows_best else "the original model"
        notes["search"] = f"The key figures, the graph and the layers are those of {of}."
    if values.num_samples:
        notes["values"] = f"Activations were measured on {counted(values.num_samples, 'row')}."
    if facts.comparison:
        first, threshold = facts.comparison.get("first_below"), facts.comparison.get("threshold_db")
        where = f"first falls below {threshold:g} dB at {first}" if first else f"stays above {threshold:g} dB"
        notes["error"] = f"The SQNR of the node outputs {where}."
    if facts.sensitivity and facts.sensitivity.get("formats"):
        notes["sensitivity"] = f"Sensitivity was measured with {facts.sensitivity['formats']}."
    return notes


def _unknown_note(cost: Info) -> str:
    """Return how bit operations are counted, and which nodes the totals leave out."""
    convention, unknown = cost.get("convention"), list(cost.get("unknown", ()))
    note = f" Bit operations are counted as '{convention}'." if convention else ""
    names = ", ".join(unknown[:MAX_UNKNOWN_NAMED]) + (", ..." if len(unknown) > MAX_UNKNOWN_NAMED else "")
    nodes = counted(len(unknown), "node")
    return note + (f" The totals leave out {nodes} of unknown cost: {names}." if unknown else "")
