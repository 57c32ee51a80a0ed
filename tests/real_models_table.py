"""The table in docs/captured-models.md: `python tests/real_models_table.py` measures it again and writes it."""

from __future__ import annotations

import copy
import logging
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from chop.ir import MaseGraph
from chop.ir.graph.input_sizes import CapturedSizes, input_sizes
from chop.ir.graph.storage.nodes import NamedOutputs
from chop.passes import PASSES
from real_models import MODELS
from real_models_base import RealModel

PAGE = Path(__file__).parents[1] / "docs" / "captured-models.md"
BEGIN, END = "<!-- captured models -->\n", "\n<!-- end of captured models -->"
HEADER = ("model", "capture", "nodes", "known ops", "INT8", "MXFP8", "MACs", "without the model", "passes")
PRODUCTS = ("linear", "conv1d", "conv2d", "matmul", "bmm", "scaled_dot_product_attention")
INTEGER = {
    f"{role}_{key}": value for role in ("data_in", "weight") for key, value in (("width", 8), ("scale", "float"))
}
CONFIGS = {"INT8": {"name": "integer", **INTEGER}, "MXFP8": {"name": "mxfp"}}
FOR_HARDWARE = (
    *("add_hardware_metadata", "cosimulate", "emit_testbench", "emit_verilog", "estimate_hardware"),
    *("report_synthesis", "resolve_formats"),
)
"""Passes for small networks in fixed point; they say which ops they do not support."""


def captured(name: str) -> tuple[RealModel, MaseGraph]:
    """Return a model in evaluation mode, and its annotated graph."""
    torch.manual_seed(0)
    real = MODELS[name]()
    real.model.eval()
    graph = PASSES["init_metadata"](MaseGraph(real.model, example_inputs=real.batch), None)[0]
    graph = PASSES["add_common_metadata"](graph, {"dummy_in": real.batch})[0]
    return real, PASSES["add_software_metadata"](graph, None)[0]


def quantized(graph: MaseGraph, name: str) -> MaseGraph:
    """Return a copy of a graph whose matrix products and convolutions are in a format of `CONFIGS`."""
    ops = {meta.mase_op for meta in graph.metas()}.intersection(PRODUCTS)
    entries = {op: {"config": CONFIGS[name]} for op in ops}
    return PASSES["quantize"](copy.deepcopy(graph), {"by": "type", **entries})[0]


def tensors(output: Any) -> list[Tensor]:
    """Return the tensors in a model's output."""
    output = dict(output) if isinstance(output, NamedOutputs) else output
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]


@torch.no_grad()
def sqnr_db(real: RealModel, graph: MaseGraph) -> float:
    """Return the signal-to-quantisation-noise ratio of the first output."""
    expected, found = (tensors(each(**real.batch))[0] for each in (real.model, graph.model))
    return float(10 * torch.log10(expected.square().sum() / (found - expected).square().sum()))


def known_ops(graph: MaseGraph) -> tuple[int, int]:
    """Return how many calls are in the op table, and how many there are."""
    calls = [meta.op is not None for meta in graph.metas() if meta.node.op.startswith("call_")]
    return sum(calls), len(calls)


def shown_capture(graph: MaseGraph) -> str:
    """Return how a graph was captured, and which lengths of sequences it takes."""
    lengths = {
        _shown_length(sizes) for _, sizes in input_sizes(graph.fx_graph) if sizes is not None and sizes.least > 0
    }
    return ", ".join((graph.capture, *sorted(lengths)))


def _shown_length(sizes: CapturedSizes) -> str:
    if sizes.least == sizes.most:
        return "fixed length"
    return "any length" if sizes.most is None else f"length up to {sizes.most}"


def pass_arguments(graph: MaseGraph, original: MaseGraph, batch: dict[str, Tensor], folder: Path) -> dict[str, Any]:
    """Return the arguments of the passes that need any."""
    node = next(meta.node.name for meta in graph.metas() if meta.mase_op == "linear")
    formats = {"by": "type", "linear": {"config": CONFIGS["INT8"]}}
    calibration = {"input_generator": [batch]}
    return {
        "adaround": {**calibration, "iterations": 2},
        "add_common_metadata": {"dummy_in": batch},
        "calibrate": calibration,
        "clip": calibration,
        "compare_graphs": {"original": original, "inputs": batch},
        "correct_bias": calibration,
        "explain": {"node": node},
        "export_onnx": {"path": folder / "model.onnx"},
        "export_qonnx": {"path": folder / "model.qonnx.onnx"},
        "export_safetensors": {"path": folder / "model.safetensors"},
        "gptq": calibration,
        "load_mase_graph": {"load_dir": str(folder)},
        "load_node_meta_param": {"load_dir": str(folder)},
        "profile_statistics": {"input_generator": [batch], "num_samples": 2},
        "quantize": {"by": "type", "linear": {"config": CONFIGS["MXFP8"]}},
        "recover_accuracy": calibration,
        "report_html": {"path": str(folder / "report.html")},
        "save_mase_graph": {"save_dir": str(folder)},
        "save_node_meta_param": {"save_dir": str(folder)},
        "sensitivity": {**formats, **calibration, "nodes": [node], "both": False},
        "smooth": calibration,
        "summarize_quantization": {"original": original},
        "verify_quantization": {"dummy_in": batch},
    }


def failing_passes(real: RealModel, original: MaseGraph, folder: Path) -> dict[str, str]:
    """Run every pass on the quantised graph; return the messages of those that fail, by name."""
    graph = quantized(original, "INT8")
    given = pass_arguments(graph, original, real.batch, folder)
    # These change the nodes, or forget what is known of them.
    last = ("recover_accuracy", "rotate", "fold_batch_norm", "init_metadata")
    order = sorted(PASSES.keys() - set(last), key=lambda name: (name.startswith("load"), name))
    failures: dict[str, str] = {}
    for name in (*order, *last):
        if name not in FOR_HARDWARE:
            message = _failure(lambda name=name: PASSES[name](graph, given.get(name)))  # type: ignore[misc]
            failures |= {name: message} if message else {}
    return failures


def _failure(function: Callable[[], object]) -> str:
    try:
        with redirect_stdout(StringIO()):
            function()
    except Exception as error:  # noqa: BLE001 - any error is a result of the table
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


def load_without_model(real: RealModel, graph: MaseGraph, folder: Path) -> str:
    """Load a graph that is saved in a folder; return why that fails without the model, or ''."""

    def load() -> None:
        loaded = PASSES["load_mase_graph"](None, {"load_dir": str(folder)})[0]
        with torch.no_grad():
            found, expected = tensors(loaded.model(**real.batch)), tensors(graph.model(**real.batch))
        assert all(a.equal(b) for a, b in zip(found, expected, strict=True))

    return _failure(load)


def row(name: str) -> tuple[str, ...]:
    """Return the row of a model."""
    try:
        real, graph = captured(name)
    except ValueError as error:
        return (name, f"no: {error}", *("",) * (len(HEADER) - 2))
    known, calls = known_ops(graph)
    _, cost = PASSES["estimate_cost"](graph, None)
    with tempfile.TemporaryDirectory() as folder:
        failures = failing_passes(real, graph, Path(folder))
        saved = quantized(graph, "INT8")
        PASSES["save_mase_graph"](saved, {"save_dir": folder})
        unloaded = load_without_model(real, saved, Path(folder))
    return (
        name,
        shown_capture(graph),
        str(len(graph.fx_graph.nodes)),
        f"{known} of {calls}",
        *(f"{sqnr_db(real, quantized(graph, kind)):.0f} dB" for kind in CONFIGS),
        _compared(cost["total"]["macs"], real),
        "no: " + unloaded.split(": ", 2)[-1] if unloaded else "yes",
        _shown(failures),
    )


def _compared(macs: int, real: RealModel) -> str:
    return f"as {real.counted}" if macs == real.macs else f"{macs:,}, {real.counted} {real.macs:,}"


def _shown(failures: dict[str, str]) -> str:
    """Return which passes work; those that fail for the same reason are together."""
    reasons: dict[str, list[str]] = {}
    for name, message in failures.items():
        reasons.setdefault(message.rpartition(": ")[2].replace(";", ","), []).append(name)
    return "; ".join(f"not {', '.join(names)}: {reason}" for reason, names in reasons.items()) or "all"


def passes_that_fail(shown: str) -> set[str]:
    """Return the names of the passes that a cell of the table says do not work."""
    lists = (part.removeprefix("not ").partition(": ")[0] for part in shown.split("; ") if part != "all")
    return {name for names in lists for name in names.split(", ")}


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """Return the rows as a Markdown table, with a numbered list of reasons below it."""
    reasons: list[str] = []
    numbered = [(*each[:-1], _numbered(each[-1], reasons)) for each in rows]
    lines = [HEADER, ("---",) * len(HEADER), *numbered]
    table = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    return "\n".join([*table, "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))])


def _numbered(cell: str, reasons: list[str]) -> str:
    """Return a cell with numbers instead of reasons, which are added to a list."""
    parts = []
    for part in cell.split("; "):
        names, _, reason = part.partition(": ")
        reasons += [reason] if reason and reason not in reasons else []
        parts.append(f"{names} ({reasons.index(reason) + 1})" if reason else names)
    return "; ".join(parts)


def documented() -> dict[str, tuple[str, ...]]:
    """Return the rows of the page, by model, with the reasons instead of their numbers."""
    lines = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines[2:] if line.startswith("|")]
    reasons = dict(line.split(". ", 1) for line in lines if line[:1].isdigit())
    for each in rows:
        each[-1] = re.sub(r" \((\d+)\)", lambda match: f": {reasons[match[1]]}", each[-1])
    return {each[0].strip(): tuple(cell.strip() for cell in each) for each in rows}


def main(names: list[str]) -> None:
    """Measure the named models, or all, and write the page."""
    logging.getLogger("chop").setLevel(logging.ERROR)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    rows = documented() | {name: row(name) for name in names or MODELS}
    PAGE.write_text(
        f"{before}{BEGIN}\n{table(rows[name] for name in MODELS if name in rows)}\n{END}{rest.partition(END)[2]}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
