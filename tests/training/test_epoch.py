"""Which epoch is the best."""

from __future__ import annotations

import math

from chop.training.epoch import Epoch


def epoch(accuracy: float, loss: float) -> Epoch:
    return Epoch(1, 10, 0.1, 0.5, 0.5, val_loss=loss, val_accuracy=accuracy)


def test_accuracy_goes_first_and_then_loss() -> None:
    assert epoch(0.9, 2.0).rank > epoch(0.8, 1.0).rank
    assert epoch(0.9, 1.0).rank > epoch(0.9, 2.0).rank


def test_a_loss_that_is_no_number_is_the_worst() -> None:
    assert epoch(0.0, 99.0).rank > epoch(0.9, math.nan).rank


def test_a_line_tells_everything() -> None:
    line = "epoch   1  loss 0.5000  accuracy 0.5000  val loss 0.2500  val accuracy 0.7500  lr 1.00e-01"
    assert str(epoch(0.75, 0.25)) == line
