"""Circuits with a learned width for every weight, compared with HGQ2 + alkaid and with uniform widths."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor, nn

from benchmarks.areas import area_of
from benchmarks.hardware import JetInfo
from benchmarks.results import Result
from chop.config import DesignOptions, WidthTrainingOptions
from chop.cost import bitops
from chop.dataset import MaseDataModule, Rows, Splits
from chop.formats.integer import Integer
from chop.hardware.emit import write_rtl
from chop.hardware.prepare import prepare
from chop.hardware.resolve import fold_batch_norms
from chop.hardware.resolve.layers import set_formats
from chop.hardware.rtl.design import make_design
from chop.hardware.synthesis import has_yosys
from chop.ir import MaseGraph
from chop.models.jet_substructure import JSCMLP
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from chop.searching.strategies.learned_training import (
    StartingWidths,
    WidthTraining,
    steps_of_trials,
)
from chop.searching.strategies.measuring import evenly_spaced

SUMMARY = """Multilayer perceptrons on the generated jets, as circuits: how many look-up tables an accuracy costs.

- **Training.** Random weights, 36,000 rows, 2,100 + 4,200 steps of 512 rows for everyone. The first part has no
  pressure on the widths. In the second, `learned` and HGQ2 have a penalty on EBOPs that grows, in three runs each
  with different schedules; then their weights are trained for 400 more steps with fixed widths. Uniform widths
  train with rounding, with the fraction bits of the least error per tensor.
- **Points.** Each run has 60 of them. Evenly spaced points of the front on 4,000 validation rows are synthesised:
  12 of ours, up to 5,000 EBOPs, and 4 for each kind of schedule of HGQ2 (falling and constant learning rates), up
  to 6,000; Yosys takes minutes for larger circuits.
- **Columns.** LUT by the same Yosys (`synth_xilinx -family xc7`). Accuracy on the same 10,000 test rows, computed
  by our integer program and by alkaid's interpreter. EBOPs of HGQ2 count the bits of its quantisers and biases,
  ours the bits that the rounded weights use. Ours has registers and a ready/valid handshake, alkaid's RTL
  registers only.
- **Ratios.** The LUTs of `learned` at the accuracy of another circuit are interpolated logarithmically between
  two circuits, and divided by the LUTs of the other.
- **alkaid equals Keras.** `rows differ` counts test rows whose scores differ between alkaid and Keras. One pass
  of alkaid 0.8.2 (`canonicalize_msb_wraps`) is switched off: where a scaled value is quantised to one bit, it
  loses the power of two and takes a wrong bit."""
HGQ2 = Path(os.environ.get("HGQ2_PYTHON", "/tmp/hgq2-venv/bin/python"))
FOLDER = os.environ.get("SMALL_CIRCUITS_FOLDER")
"""Where the training of HGQ2 is kept, so that it need not be repeated; see also `AREAS_FOLDER`."""
SIZES: Mapping[str, Sequence[int]] = {"16-64-32-32-5": (64, 32, 32), "jsc-s (16-64-32-32-32-5)": (64, 32, 32, 32)}
BATCH_SIZE, WARM_UP, STEPS, FINETUNE_STEPS, POINTS = 512, 2100, 4200, 400, 60
MIN_EBOPS, MAX_EBOPS, HGQ2_MAX_EBOPS = 400, 5_000, 6_000
"""Larger points are not synthesised, because Yosys takes minutes; smaller ones are of no use."""
WIDTHS = (3, 4, 5)
SYNTHESISED, HGQ2_SYNTHESISED = 12, 4
"""Points of each front that are synthesised."""
PICTURE = Path(__file__).parents[1] / "docs/images/small_circuits.png"
FINETUNE_RATE = 4e-3
DECAY_TO = 0.1
"""Share of the learning rates that is left at the end of the second part."""
RUNS = (
    {"weight_learning_rate": FINETUNE_RATE, "width_learning_rate": 0.01, "beta_from": 1.0, "beta_to": 15.0},
    {"weight_learning_rate": FINETUNE_RATE, "width_learning_rate": 0.01, "beta_from": 1.5, "beta_to": 35.0},
    {"weight_learning_rate": FINETUNE_RATE, "width_learning_rate": 0.01, "beta_from": 2.0, "beta_to": 80.0},
)
HGQ2_TASKS: Sequence[Mapping[str, Any]] = (
    {
        "decay_to": DECAY_TO,
        "runs": [
            {"learning_rate": 1e-2, "beta_from": 1e-6, "beta_to": 1e-4},
            {"learning_rate": 1e-2, "beta_from": 1e-6, "beta_to": 4e-4},
        ],
    },
    {"decay_to": 1.0, "runs": [{"learning_rate": 1e-2, "beta_from": 1e-6, "beta_to": 1e-4}]},
)
"""Runs of HGQ2: as ours, with learning rates that fall, and with a constant one, which suits it better."""


@dataclass(frozen=True)
class Point:
    """A network with its accuracy on validation rows and its bit operations."""

    accuracy: float
    ebops: float
    what: Any


@dataclass(frozen=True)
class Measured:
    """The accuracy and look-up tables of a circuit."""

    accuracy: float
    lut: int
    ebops: float
    note: str = ""


def run(quick: bool = False) -> list[Result]:
    """Return all results; `quick` only trains for a few steps."""
    torch.set_num_threads(1)
    data = MaseDataModule(name="jsc", batch_size=BATCH_SIZE, model_name="jsc-mlp", num_workers=0)
    data.prepare_data()
    data.setup()
    splits = data.splits
    if quick:
        front = _learned_front(_float_model((8,), splits.train, 5), splits, RUNS[0], steps=5, points=1)
        return [Result("learned, accuracy", front[0].accuracy, math.inf, "")]
    if not has_yosys():
        print("small_circuits: Yosys is not installed")
        return []
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as temporary:
        wanted = os.environ.get("SMALL_CIRCUITS", ",".join(SIZES)).split(",")
        for number, (name, hidden) in enumerate(SIZES.items()):
            if name not in wanted:
                continue
            folder = Path(FOLDER or temporary) / str(number)
            for result in _compare(name, hidden, splits, folder):
                results.append(result)
                print(f"{result.what}: {result.measured:.2f} {result.unit} {result.why}", flush=True)
    draw(results, next(iter(SIZES)), PICTURE)
    return results


def _compare(name: str, hidden: Sequence[int], splits: Splits, folder: Path) -> Iterator[Result]:
    model = _float_model(hidden, splits.train, WARM_UP)
    accuracy = _accuracy(model, splits.test)
    yield Result(f"{name}: accuracy in float after the first part", 100 * accuracy, math.inf, "%")
    points = [point for run in RUNS for point in _learned_front(model, splits, run, STEPS, POINTS)]
    for point in points:
        print(f"{name}: learned {point.accuracy:.4f} {point.ebops:.0f} EBOPs", flush=True)
    ours = []
    for point in _chosen(points):
        ours.append(_measured(point, splits.test, folder / "learned"))
        yield from _rows(f"{name}: learned", ours[-1:])
    uniform = []
    for width in WIDTHS:
        point = _uniform(model, width, splits)
        uniform.append(_measured(point, splits.test, folder / f"uniform{width}"))
        yield from _rows(f"{name}: uniform {width} bits", uniform[-1:])
    yield from _against(f"{name}: learned against uniform widths", ours, uniform, 0.5)
    theirs = _hgq2(hidden, splits, folder)
    yield from _rows(f"{name}: HGQ2 + alkaid", theirs)
    yield from _against(f"{name}: learned against HGQ2 + alkaid", ours, theirs, 1.2)


def draw(results: Sequence[Result], size: str, path: Path) -> None:
    """Draw accuracy against look-up tables of all circuits of one size, a line for the front of each kind."""
    figure = Figure((6.4, 4))
    axes = figure.subplots()
    lines: dict[str, list[Measured]] = {}
    for each in results:
        if each.unit == "LUT" and each.what.startswith(f"{size}: "):
            found = Measured(float(each.why.split(" ")[0]), round(each.measured), 0)
            lines.setdefault(each.what.removeprefix(f"{size}: "), []).append(found)
    for label, circuits in lines.items():
        front = front_of(circuits)
        (line,) = axes.plot([each.lut for each in front], [each.accuracy for each in front], label=label)
        axes.plot(
            [each.lut for each in circuits], [each.accuracy for each in circuits], "o", color=line.get_color()
        )
    axes.set(xscale="log", xlabel="look-up tables (Yosys, xc7)", ylabel="accuracy on test rows, %", title=size)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_formatter("")
    axes.legend()
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=110, bbox_inches="tight")


def _rows(label: str, circuits: Sequence[Measured]) -> Iterator[Result]:
    for each in circuits:
        why = f"{100 * each.accuracy:.2f} %, {each.ebops:.0f} EBOPs{each.note}"
        yield Result(label, each.lut, math.inf, "LUT", why)


def _against(label: str, ours: Sequence[Measured], others: Sequence[Measured], limit: float) -> Iterator[Result]:
    """Yield the ratio of look-up tables at the accuracies of another front: infinite above ours, none below it."""
    for other in front_of(others):
        what = f"{label} at {100 * other.accuracy:.2f} %"
        lut = lut_at(ours, other.accuracy)
        if lut is not None:
            yield Result(what, lut / other.lut, limit, "x its LUT")
        elif other.accuracy > max(each.accuracy for each in ours):
            yield Result(what, math.inf, limit, "x its LUT", "above the synthesised points of ours")


def front_of(circuits: Sequence[Measured]) -> list[Measured]:
    """Return the circuits that are more accurate than all smaller ones, by size."""
    front: list[Measured] = []
    for each in sorted(circuits, key=lambda circuit: circuit.lut):
        if not front or each.accuracy > front[-1].accuracy:
            front.append(each)
    return front


def lut_at(circuits: Sequence[Measured], accuracy: float) -> float | None:
    """Return the look-up tables that a front has at an accuracy; None outside of its range."""
    front = front_of(circuits)
    if not front or not front[0].accuracy <= accuracy <= front[-1].accuracy:
        return None
    logarithms = np.interp(accuracy, [each.accuracy for each in front], [math.log(each.lut) for each in front])
    return float(np.exp(logarithms))


def _chosen(points: Sequence[Point]) -> list[Point]:
    """Return points of the front of validation rows that are small enough for the solver, evenly spaced."""
    front: list[Point] = []
    for point in sorted(points, key=lambda each: each.ebops):
        if MIN_EBOPS <= point.ebops <= MAX_EBOPS and (not front or point.accuracy > front[-1].accuracy):
            front.append(point)
    return evenly_spaced(front, SYNTHESISED)


def _measured(point: Point, test: Rows, folder: Path) -> Measured:
    """Return accuracy and area of the circuit of a graph."""
    program = prepare(point.what).program
    integers = program.run(program.quantize(test.features.numpy()))
    accuracy = float((integers.argmax(1) == test.labels.numpy()).mean())
    folder = folder / f"{point.ebops:.0f}"
    design = make_design(program, DesignOptions(strategy={"default": "unrolled"}))
    area = area_of(write_rtl(design, folder), design.options.name, folder / "reports")
    return Measured(accuracy, area.lut, point.ebops)


def _alkaid_lut(folder: Path) -> int:
    """Return the look-up tables of alkaid's RTL in a folder."""
    files = [path for path in (folder / "src").rglob("*.v") if "sim" not in path.parts]
    copies = [path.with_suffix(".sv") for path in files]
    for path, copied in zip(files, copies, strict=True):
        copied.write_text(path.read_text())
    return area_of(copies, "own", folder / "reports").lut


def _float_model(hidden: Sequence[int], train: Rows, steps: int) -> nn.Module:
    torch.manual_seed(0)
    model = JSCMLP(JetInfo(), list(hidden))
    _train(model, train, steps, 3e-3)
    return model.eval()


def _train(model: nn.Module, train: Rows, steps: int, learning_rate: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    model.train()
    for _ in range(steps):
        chosen = torch.randint(len(train.labels), (BATCH_SIZE,))
        F.cross_entropy(model(train.features[chosen]), train.labels[chosen]).backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()


def _graph(model: nn.Module, train: Rows) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": train.features[:1024]}})
    return graph


def _learned_front(
    model: nn.Module, splits: Splits, run: Mapping[str, Any], steps: int, points: int
) -> list[Point]:
    graph = _graph(model, splits.train)
    widths = {meta.node.name: StartingWidths() for meta in graph.annotated_metas() if meta.mase_op == "linear"}
    options = WidthTrainingOptions(
        steps=steps, batch_size=BATCH_SIZE, decay_to=DECAY_TO, finetune_steps=FINETUNE_STEPS, **run
    )
    training = WidthTraining(graph, lambda rows: {"x": rows}, splits.train, widths, options)
    return [_point(training.graph_at(step), splits) for step in steps_of_trials(steps, points)]


def _uniform(model: nn.Module, width: int, splits: Splits) -> Point:
    graph = _graph(model, splits.train)
    fold_batch_norms(graph)
    graph.model.recompile()
    for meta in graph.annotated_metas():
        if meta.mase_op == "linear":
            values = {name: meta.value(name) for name in ("data_in_0", "weight")}
            formats = {name: _least_error(value, width) for name, value in values.items() if value is not None}
            set_formats(meta, {**formats, "bias": Integer(16, 10)})
    torch.manual_seed(0)
    _train(graph.model, splits.train, STEPS, 1e-3)
    return _point(graph, splits)


def _least_error(value: Tensor, width: int) -> Integer:
    """Return the fixed-point format of a width that changes values the least."""
    formats = [Integer(width, fraction) for fraction in range(-4, 10)]
    return min(formats, key=lambda each: float((each.quantize(value) - value).square().sum()))


def _point(graph: MaseGraph, splits: Splits) -> Point:
    ebops = sum(bitops(meta, "ebops") or 0 for meta in graph.annotated_metas()) / 1024
    return Point(_accuracy(graph.model.eval(), splits.val), ebops, graph)


def _accuracy(model: nn.Module, rows: Rows) -> float:
    with torch.no_grad():
        return float((model(rows.features).argmax(1) == rows.labels).float().mean())


def _hgq2(hidden: Sequence[int], splits: Splits, folder: Path) -> list[Measured]:
    """Return the circuits of HGQ2."""
    if not HGQ2.exists():
        print(
            "HGQ2 is left out: make an environment with 'pip install HGQ2 alkaid jax[cpu]', and set HGQ2_PYTHON to "
            "its python"
        )
        return []
    found = []
    for number, runs in enumerate(HGQ2_TASKS):
        own = folder / f"hgq2_{number}"
        found += [
            Measured(
                each["circuit_accuracy"],
                _alkaid_lut(own / each["name"]),
                each["ebops"],
                f", {each['rtl_differences']} rows differ",
            )
            for each in _hgq2_points(hidden, splits, own, runs)
            if "circuit_accuracy" in each
        ]
    return found


def _hgq2_points(
    hidden: Sequence[int], splits: Splits, folder: Path, runs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the points of some runs of HGQ2, which are trained unless `folder` has them."""
    folder.mkdir(parents=True, exist_ok=True)
    task = {"seed": 0, "hidden": list(hidden), "batch_size": BATCH_SIZE, "warm_up_steps": WARM_UP, "steps": STEPS}
    task |= {"points": POINTS, "max_ebops": HGQ2_MAX_EBOPS, "rtl_points": HGQ2_SYNTHESISED, **runs}
    task |= {"finetune_steps": FINETUNE_STEPS, "finetune_learning_rate": FINETUNE_RATE}
    points = folder / "points.json"
    if not points.exists() or json.loads((folder / "task.json").read_text()) != task:
        (folder / "task.json").write_text(json.dumps(task))
        arrays: dict[str, Any] = {}
        for name, rows in (("train", splits.train), ("validation", splits.val), ("test", splits.test)):
            arrays |= {f"{name}_x": rows.features.numpy(), f"{name}_y": rows.labels.numpy()}
        np.savez(folder / "rows.npz", **arrays)
        subprocess.run([HGQ2, Path(__file__).with_name("hgq2_front.py"), folder], check=True)
    read: list[dict[str, Any]] = json.loads(points.read_text())
    return read
