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
from torch import Tensor, nn

from benchmarks.hardware import JetInfo
from benchmarks.results import Result
from chop.cost import bitops
from chop.dataset import MaseDataModule, Rows
from chop.formats.integer import Integer
from chop.hardware.emit import write_rtl
from chop.hardware.prepare import prepare
from chop.hardware.resolve import fold_batch_norms
from chop.hardware.resolve.layers import set_formats
from chop.hardware.rtl.design import DesignOptions, make_design
from chop.hardware.synthesis.yosys import is_available, measure_area, read_area
from chop.ir import MaseGraph
from chop.models.jet_substructure import JSCMLP
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from chop.searching.strategies.learned_training import (
    StartingWidths,
    WidthTraining,
    WidthTrainingOptions,
    steps_of_trials,
)

SUMMARY = (
    "Multilayer perceptrons on the generated jets (36,000 training rows), all accuracies on the same 10,000 test "
    "rows. All start from random weights and have the same number of steps with the same batch size: first "
    "without pressure on the widths, then with a penalty on EBOPs that grows until little is left of the network. "
    "Uniform widths, with the fraction bits of the least error in each tensor, are trained for 500 steps more. "
    "LUT by the same Yosys (`synth_xilinx -family xc7`); ours has registers and a ready/valid handshake; alkaid's "
    "RTL of HGQ2's networks is combinational. Compared are points of HGQ2 with the smallest of ours, and the "
    "narrowest uniform width, that is at least as accurate."
)
HGQ2 = Path(os.environ.get("HGQ2_PYTHON", "/tmp/hgq2-venv/bin/python"))
FOLDER = os.environ.get("SMALL_CIRCUITS_FOLDER")
"""Where the training of HGQ2 is kept, so that it need not be repeated."""
SIZES: Mapping[str, Sequence[int]] = {"16-64-32-32-5": (64, 32, 32), "jsc-s (16-64-32-32-32-5)": (64, 32, 32, 32)}
BATCH_SIZE, WARM_UP, STEPS, POINTS = 512, 2100, 4200, 20
MOST_EBOPS, MOST_SYNTHESISED = 50_000, 10_000
"""Larger points have no RTL, because the solver takes minutes, or are not synthesised."""
WIDTHS = (3, 4, 5, 6)
UNIFORM_STEPS = 500
COMPARED = 1
"""Points of HGQ2 that are synthesised, for each size."""


@dataclass(frozen=True)
class Point:
    """A network with its accuracy and bit operations."""

    accuracy: float
    ebops: float
    what: Any


def run(quick: bool = False) -> list[Result]:
    """Return all results; `quick` only trains for a few steps."""
    torch.set_num_threads(1)
    data = MaseDataModule(name="jsc", batch_size=BATCH_SIZE, model_name="jsc-mlp", num_workers=0)
    data.prepare_data()
    data.setup()
    train, test = data.splits.train, data.splits.test
    if quick:
        front = _learned_front(_float_model((8,), train, 5), train, test, steps=5, points=1)
        return [Result("learned, accuracy", front[0].accuracy, math.inf, "")]
    if not is_available():
        print("small_circuits: Yosys is not installed")
        return []
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as temporary:
        wanted = os.environ.get("SMALL_CIRCUITS", ",".join(SIZES)).split(",")
        for number, (name, hidden) in enumerate(SIZES.items()):
            if name not in wanted:
                continue
            folder = Path(FOLDER or temporary) / str(number)
            for result in _compare(name, hidden, train, test, folder):
                results.append(result)
                print(f"{result.what}: {result.measured:.2f} {result.unit} {result.why}", flush=True)
    return results


def _compare(name: str, hidden: Sequence[int], train: Rows, test: Rows, folder: Path) -> Iterator[Result]:
    model = _float_model(hidden, train, WARM_UP)
    yield Result(f"{name}: accuracy in float after the first part", 100 * _accuracy(model, test), math.inf, "%")
    front = _learned_front(model, train, test, STEPS, POINTS)
    for point in front:
        print(f"{name}: learned {point.accuracy:.4f} {point.ebops:.0f} EBOPs", flush=True)
    uniform = [_uniform(model, width, train, test) for width in WIDTHS]
    for width, point in zip(WIDTHS, uniform, strict=True):
        yield Result(f"{name}: uniform {width} bits, accuracy", 100 * point.accuracy, math.inf, "%")
    if not HGQ2.exists():
        print(
            "HGQ2 is left out: make an environment with 'pip install HGQ2 alkaid jax[cpu]', and set HGQ2_PYTHON to "
            "its python"
        )
        return
    for theirs in _hgq2_points(hidden, train, test, folder)[:COMPARED]:
        yield from _at_equal_accuracy(name, theirs, front, uniform, folder)


def _at_equal_accuracy(
    name: str, theirs: Point, front: Sequence[Point], uniform: Sequence[Point], folder: Path
) -> Iterator[Result]:
    label = f"{name} at {100 * theirs.accuracy:.1f} %"
    their_lut = _alkaid_lut(theirs.what)
    yield Result(f"{label}: HGQ2 + alkaid", their_lut, math.inf, "LUT", f"{theirs.ebops:.0f} EBOPs")
    ours = _smallest(front, theirs.accuracy)
    if ours is None:
        return
    lut = _lut(ours.what, folder / f"ours{ours.ebops:.0f}")
    found = f"{100 * ours.accuracy:.1f} %, {ours.ebops:.0f} EBOPs"
    yield Result(f"{label}: learned", lut, math.inf, "LUT", found)
    yield Result(f"{label}: learned against HGQ2 + alkaid", lut / their_lut, 1.2, "x its LUT")
    best = _smallest(uniform, theirs.accuracy)
    if best is None:
        return
    uniform_lut = _lut(best.what, folder / f"uniform{best.ebops:.0f}")
    found = f"{100 * best.accuracy:.1f} %, {best.ebops:.0f} EBOPs"
    yield Result(f"{label}: best uniform width", uniform_lut, math.inf, "LUT", found)
    yield Result(f"{label}: learned against the best uniform width", lut / uniform_lut, 0.5, "x its LUT")


def _alkaid_lut(folder: Path) -> int:
    """Return the look-up tables of alkaid's RTL in a folder; kept there, because a large one takes minutes."""
    statistics = folder / "reports" / "own_xc7.txt"
    if statistics.exists():
        return read_area(statistics.read_text()).lut
    files = [path for path in (folder / "src").rglob("*.v") if "sim" not in path.parts]
    copies = [path.with_suffix(".sv") for path in files]
    for path, copied in zip(files, copies, strict=True):
        copied.write_text(path.read_text())
    return measure_area(copies, "own", folder / "reports").lut


def _smallest(points: Sequence[Point], accuracy: float) -> Point | None:
    """Return the point with the fewest bit operations that is at least so accurate."""
    return min((p for p in points if p.accuracy >= accuracy), key=lambda p: p.ebops, default=None)


def _lut(graph: MaseGraph, folder: Path) -> int:
    design = make_design(prepare(graph).program, DesignOptions(strategy={"default": "unrolled"}))
    return measure_area(write_rtl(design, folder), design.options.name, folder / "reports").lut


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


def _learned_front(model: nn.Module, train: Rows, test: Rows, steps: int, points: int) -> list[Point]:
    graph = _graph(model, train)
    widths = {meta.node.name: StartingWidths() for meta in graph.annotated_metas() if meta.mase_op == "linear"}
    options = WidthTrainingOptions(
        steps=steps, batch_size=BATCH_SIZE, weight_learning_rate=2e-3, width_learning_rate=0.01, beta_from=0.1
    )
    run = WidthTraining(graph, lambda rows: {"x": rows}, train, widths, options)
    return [_point(run.graph_at(step), test) for step in steps_of_trials(steps, points)]


def _uniform(model: nn.Module, width: int, train: Rows, test: Rows) -> Point:
    graph = _graph(model, train)
    fold_batch_norms(graph)
    graph.model.recompile()
    for meta in graph.annotated_metas():
        if meta.mase_op == "linear":
            values = {name: meta.value(name) for name in ("data_in_0", "weight")}
            formats = {name: _least_error(value, width) for name, value in values.items() if value is not None}
            set_formats(meta, {**formats, "bias": Integer(16, 10)})
    torch.manual_seed(0)
    _train(graph.model, train, UNIFORM_STEPS, 1e-3)
    return _point(graph, test)


def _least_error(value: Tensor, width: int) -> Integer:
    """Return the fixed-point format of a width that changes values the least."""
    formats = [Integer(width, fraction) for fraction in range(-4, 10)]
    return min(formats, key=lambda each: float((each.quantize(value) - value).square().sum()))


def _point(graph: MaseGraph, test: Rows) -> Point:
    ebops = sum(bitops(meta, "ebops") or 0 for meta in graph.annotated_metas()) / 1024
    return Point(_accuracy(graph.model.eval(), test), ebops, graph)


def _accuracy(model: nn.Module, test: Rows) -> float:
    with torch.no_grad():
        return float((model(test.features).argmax(1) == test.labels).float().mean())


def _hgq2_points(hidden: Sequence[int], train: Rows, test: Rows, folder: Path) -> list[Point]:
    """Return the points of HGQ2 that have RTL, the most accurate first."""
    folder.mkdir(parents=True, exist_ok=True)
    task = {"seed": 0, "hidden": list(hidden), "batch_size": BATCH_SIZE, "warm_up_steps": WARM_UP, "steps": STEPS}
    task |= {"points": 15, "beta_from": 1e-6, "beta_to": 4e-4, "learning_rate": 3e-3, "most_ebops": MOST_EBOPS}
    text, points = json.dumps(task), folder / "points.json"
    if not points.exists() or json.loads((folder / "task.json").read_text()) != task:
        (folder / "task.json").write_text(text)
        np.savez(
            folder / "rows.npz",
            train_x=train.features.numpy(),
            train_y=train.labels.numpy(),
            test_x=test.features.numpy(),
            test_y=test.labels.numpy(),
        )
        script = Path(__file__).with_name("hgq2_front.py")
        subprocess.run([HGQ2, script, folder], check=True)
    found = json.loads(points.read_text())
    small = [each for each in found if each["ebops"] <= MOST_SYNTHESISED]
    made = [Point(each["accuracy"], each["ebops"], folder / each["name"]) for each in small]
    return sorted(made, key=lambda point: -point.accuracy)
