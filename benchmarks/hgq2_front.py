"""A front of HGQ2, in an environment that has HGQ2, alkaid and JAX: reads rows, writes RTL of each point."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")

import keras
import numpy as np
from alkaid.codegen import RTLModel
from alkaid.converter import trace_model
from alkaid.trace import trace
from alkaid.trace.passes import canon
from hgq.config import LayerConfigScope, QuantizerConfigScope
from hgq.layers import QDense
from hgq.utils import trace_minmax
from hgq.utils.sugar import BetaScheduler, PieceWiseSchedule

LATENCY_CUTOFF = 4
"""Adders in a row between two registers: Yosys takes minutes for deep circuits without registers."""

canon.canonicalize_msb_wraps = lambda comb: comb
"""Without this pass: in alkaid 0.8.2 it drops the factor of a scaled value that is quantised to one bit.

It takes the highest bit of the value before scaling instead, so that the circuit differs from Keras.
"""


class Points(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the weights after some epochs."""

    def __init__(self, epochs: list[int]) -> None:
        super().__init__()
        self.epochs = epochs
        self.weights: dict[int, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch + 1 in self.epochs:
            self.weights[epoch + 1] = _weights(self.model)


def main(folder: Path) -> None:
    """Train with each schedule of a task; write `points.json`, and RTL of some points of the front of all runs."""
    given = json.loads((folder / "task.json").read_text())
    rows = np.load(folder / "rows.npz")
    keras.utils.set_random_seed(given["seed"])  # the initial weights
    model = _model(rows["train_x"].shape[1], given["hidden"], int(rows["train_y"].max()) + 1)
    start = _weights(model)
    found = []
    for number, run in enumerate(given["runs"]):
        keras.utils.set_random_seed(given["seed"])  # the order of rows
        model.set_weights(start)
        for epoch, weights in _train(model, rows, given, run).items():
            model.set_weights(weights)
            ebops = int(trace_minmax(model, rows["train_x"], batch_size=4096))
            scores = model.predict(rows["validation_x"], batch_size=4096, verbose=0)
            accuracy = float((scores.argmax(1) == rows["validation_y"]).mean())
            found.append({"name": f"run{number}epoch{epoch}", "ebops": ebops, "accuracy": accuracy})
            found[-1]["weights"] = _weights(model)
            print(*(f"{key} {value}" for key, value in found[-1].items() if key != "weights"), flush=True)
    for point in _chosen(found, given):
        model.set_weights(point["weights"])
        model.save_weights(folder / f"{point['name']}.weights.h5")
        point |= _write_rtl(model, folder / point["name"], rows)
        print(point["name"], point["circuit_accuracy"], point["rtl_differences"], flush=True)
    points = [{key: value for key, value in point.items() if key != "weights"} for point in found]
    (folder / "points.json").write_text(json.dumps(points))


def _train(model: Any, rows: Any, given: dict[str, Any], run: dict[str, Any]) -> dict[int, list[Any]]:
    """Train with a beta that grows after the first part, and return the weights after evenly spaced epochs.

    In the second part, the learning rate falls along half a cosine.
    """
    steps_per_epoch = len(rows["train_y"]) // given["batch_size"]
    warm_up, growing = (round(given[key] / steps_per_epoch) for key in ("warm_up_steps", "steps"))
    schedule = [
        (0, run["beta_from"], "constant"),
        (warm_up, run["beta_from"], "log"),
        (warm_up + growing, run["beta_to"], "constant"),
    ]
    number = given["points"]
    points = Points([warm_up + round(k * growing / number) for k in range(1, number + 1)])

    def rate(epoch: int) -> float:
        share = max(0, epoch - warm_up) / growing
        lowest = given["decay_to"]
        return float(run["learning_rate"] * (lowest + (1 - lowest) * (1 + math.cos(math.pi * share)) / 2))

    model.compile(
        keras.optimizers.Adam(run["learning_rate"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        rows["train_x"],
        rows["train_y"],
        batch_size=given["batch_size"],
        epochs=warm_up + growing,
        verbose=0,
        callbacks=[
            BetaScheduler(PieceWiseSchedule(schedule)),
            keras.callbacks.LearningRateScheduler(rate),
            points,
        ],
    )
    return points.weights


def _weights(model: Any) -> list[Any]:
    """Return copies of the weights: those of JAX may be overwritten by the next step."""
    return [np.array(each) for each in model.get_weights()]


def _chosen(points: list[dict[str, Any]], given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return evenly spaced points of the front that are small enough for the solver, which takes minutes else."""
    front: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda each: each["ebops"]):
        if point["ebops"] <= given["max_ebops"] and (not front or point["accuracy"] > front[-1]["accuracy"]):
            front.append(point)
    places = np.linspace(0, len(front) - 1, min(given["rtl_points"], len(front)))
    return [front[int(place)] for place in places]


def _model(num_features: int, hidden: list[int], num_classes: int) -> Any:
    with (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
        LayerConfigScope(enable_ebops=True, beta0=1e-8),
    ):
        layers = [QDense(width, activation="relu") for width in hidden]
        return keras.Sequential([keras.layers.Input((num_features,)), *layers, QDense(num_classes)])


def _write_rtl(model: Any, folder: Path, rows: Any) -> dict[str, Any]:
    """Write alkaid's Verilog of a model; return its accuracy, and for how many rows it differs from Keras."""
    comb = trace(*trace_model(model))
    computed = comb.predict(rows["test_x"].astype(np.float64))
    RTLModel(
        comb, folder, prj_name="own", flavor="verilog", latency_cutoff=LATENCY_CUTOFF, ternary_fuse=False
    ).write()
    scores = model.predict(rows["test_x"], batch_size=4096, verbose=0)
    return {
        "circuit_accuracy": float((computed.argmax(1) == rows["test_y"]).mean()),
        "keras_accuracy": float((scores.argmax(1) == rows["test_y"]).mean()),
        "rtl_differences": int((np.abs(computed - scores) > 1e-5).any(axis=1).sum()),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
