"""Loss, accuracy and confusion matrix, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import Rows
from chop.training.batches import in_order
from chop.training.metrics import Meter, evaluate

CPU = torch.device("cpu")


class Echo(nn.Module):
    """Answers with its input."""

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training
        return x


def test_a_meter_gives_means_over_samples() -> None:
    meter = Meter(CPU)
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    meter.add(torch.tensor(3.0), logits, torch.tensor([0, 1, 1]))
    meter.add(torch.tensor(5.0), logits[:1], torch.tensor([1]))
    assert meter.read() == (2.0, 0.5)
    assert meter.totals().tolist() == [8.0, 2.0, 4.0]


def test_a_meter_goes_on_from_its_totals() -> None:
    meter = Meter(CPU)
    meter.restore(torch.tensor([8.0, 2.0, 4.0]))
    meter.add(torch.tensor(2.0), torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    assert meter.read() == (2.0, 0.6)


def test_a_meter_of_nothing_reads_zero() -> None:
    assert Meter(CPU).read() == (0.0, 0.0)


def test_an_evaluation_by_hand() -> None:
    rows = Rows(torch.zeros(4, 3), torch.tensor([0, 1, 2, 2]))
    rows.features[[0, 1, 2, 3], [0, 2, 2, 0]] = math.log(2)  # answers 0, 2, 2, 0
    model = Echo().train()
    result = evaluate(model, in_order(rows, 2), 3, CPU)
    # softmax of (log 2, 0, 0) is (1/2, 1/4, 1/4): right answers cost log 2, wrong ones log 4
    assert result.loss == pytest.approx((2 * math.log(2) + 2 * math.log(4)) / 4)
    assert result.accuracy == 0.5
    assert result.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 1]]
    assert model.training


def test_processes_add_up_their_sums() -> None:
    rows = Rows(torch.eye(2), torch.tensor([0, 0]))
    double = evaluate(Echo(), in_order(rows, 2), 2, CPU, reduce=lambda tensor: 2 * tensor)
    assert double.accuracy == 0.5
    assert double.confusion.tolist() == [[2, 2], [0, 0]]
