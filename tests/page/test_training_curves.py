"""Training curves from the lines of a log."""

from __future__ import annotations

import math

import pytest

from chop.page.training_curves import MAX_POINTS, training_curves


def test_losses_accuracies_and_learning_rate_have_a_plot_each() -> None:
    lines = [
        {"step": 1, "epoch": 1, "step_loss": 3.0, "learning_rate": 0.1},
        {"step": 2, "epoch": 1, "train_loss": 2.0, "val_loss": 2.5, "val_accuracy": 0.5, "learning_rate": 0.1},
        {"step": 3, "epoch": 2, "train_loss": 1.0, "val_loss": 1.5, "val_accuracy": 0.75, "learning_rate": 0.1},
        {"test_before_accuracy": 0.5},
    ]
    loss, accuracy, rate = training_curves(lines)
    assert (loss["title"], loss["x"]) == ("Loss", [1, 2, 3])
    assert {series["name"]: series["values"] for series in loss["series"]} == {
        "each batch": [3.0, None, None],
        "training": [None, 2.0, 1.0],
        "validation": [None, 2.5, 1.5],
    }
    assert (accuracy["x"], accuracy["series"][0]["values"]) == ([2, 3], [0.5, 0.75])
    assert rate["title"] == "Learning rate"


def test_long_curves_are_thinned_but_keep_epoch_ends_and_the_last_step() -> None:
    lines: list[dict[str, float]] = [{"step": i, "step_loss": float(i)} for i in range(10_001)]
    lines[7] |= {"epoch": 1, "train_loss": 0.5}
    (loss,) = training_curves(lines)
    assert len(loss["x"]) <= MAX_POINTS + 2
    assert loss["x"][-1] == 10_000
    assert 7 in loss["x"]


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2, 5])
def test_curves_with_many_epochs_are_thinned(every: int) -> None:
    lines = [{"step": i, "loss": 1.0} | ({"val_loss": 2.0} if i % every == 0 else {}) for i in range(100_001)]
    (loss,) = training_curves(lines)
    assert len(loss["x"]) <= MAX_POINTS
    assert loss["x"] == sorted(set(loss["x"]))
    assert loss["x"][-1] == 100_000


def test_lines_without_a_finite_step_are_skipped() -> None:
    lines = [{"step": step, "train_loss": 1.0} for step in (1, math.inf, 2, math.nan, True)]
    assert training_curves(lines)[0]["x"] == [1, 2]
