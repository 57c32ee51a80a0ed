"""A front of HGQ2, in an environment that has HGQ2, alkaid and JAX: reads rows, writes RTL of each point."""

from __future__ import annotations

import json
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
from hgq.config import LayerConfigScope, QuantizerConfigScope
from hgq.layers import QDense
from hgq.utils import trace_minmax
from hgq.utils.sugar import BetaScheduler, PieceWiseSchedule


class Points(keras.callbacks.Callback):  # type: ignore[misc]
    """Keeps the weights after some epochs."""

    def __init__(self, epochs: list[int]) -> None:
        super().__init__()
        self.epochs = epochs
        self.weights: dict[int, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch + 1 in self.epochs:
            self.weights[epoch + 1] = self.model.get_weights()


def main(folder: Path) -> None:
    """Train once with a growing beta; write `points.json` and a folder of RTL per point."""
    given = json.loads((folder / "task.json").read_text())
    rows = np.load(folder / "rows.npz")
    keras.utils.set_random_seed(given["seed"])
    model = _model(rows["train_x"].shape[1], given["hidden"], int(rows["train_y"].max()) + 1)
    steps_per_epoch = len(rows["train_y"]) // given["batch_size"]
    warm_up, growing = (round(given[key] / steps_per_epoch) for key in ("warm_up_steps", "steps"))
    schedule = [
        (0, given["beta_from"], "constant"),
        (warm_up, given["beta_from"], "log"),
        (warm_up + growing, given["beta_to"], "constant"),
    ]
    number = given["points"]
    points = Points([warm_up + round(k * growing / number) for k in range(1, number + 1)])
    model.compile(
        keras.optimizers.Adam(given["learning_rate"]),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        rows["train_x"],
        rows["train_y"],
        batch_size=given["batch_size"],
        epochs=warm_up + growing,
        verbose=0,
        callbacks=[BetaScheduler(PieceWiseSchedule(schedule)), points],
    )
    found = []
    for epoch, weights in points.weights.items():
        model.set_weights(weights)
        ebops = int(trace_minmax(model, rows["train_x"], batch_size=4096))
        scores = model.predict(rows["test_x"], batch_size=4096, verbose=0)
        name = f"epoch{epoch}"
        point = {"name": name, "ebops": ebops, "accuracy": float((scores.argmax(1) == rows["test_y"]).mean())}
        if ebops <= given["most_ebops"]:  # the solver takes minutes for larger ones
            point["rtl_differences"] = _write_rtl(model, folder / name, rows["test_x"][:200], scores[:200])
            found.append(point)
        print(point, flush=True)
    (folder / "points.json").write_text(json.dumps(found))


def _model(num_features: int, hidden: list[int], num_classes: int) -> Any:
    with (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
        LayerConfigScope(enable_ebops=True, beta0=1e-8),
    ):
        layers = [QDense(width, activation="relu") for width in hidden]
        return keras.Sequential([keras.layers.Input((num_features,)), *layers, QDense(num_classes)])


def _write_rtl(model: Any, folder: Path, x: Any, scores: Any) -> int:
    """Write alkaid's Verilog of a model; return for how many rows it computes other results than Keras."""
    comb = trace(*trace_model(model))
    computed = comb.predict(x.astype(np.float64))
    RTLModel(comb, folder, prj_name="own", flavor="verilog", latency_cutoff=-1, ternary_fuse=False).write()
    return int((np.abs(computed - scores) > 1e-5).any(axis=1).sum())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
