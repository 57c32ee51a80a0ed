"""Loss, accuracy and confusion matrix, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import Rows
from chop.tasks.classification import ClassificationMeter
from chop.training.batches import evaluation_batches
from chop.training.evaluation import evaluate

CPU = torch.device("cpu")


class Echo(nn.Module):
    """A model that returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training
        return x


def test_evaluation_against_numbers_worked_out_by_hand() -> None:
    rows = Rows(torch.zeros(4, 3), torch.tensor([0, 1, 2, 2]))
    rows.features[[0, 1, 2, 3], [0, 2, 2, 0]] = math.log(2)  # predicted classes: 0, 2, 2, 0
    model = Echo().train()
    result = evaluate(model, evaluation_batches(rows, 2), ClassificationMeter(3, CPU), CPU)
    # softmax of (log 2, 0, 0) is (1/2, 1/4, 1/4): correct predictions cost log 2, wrong ones log 4
    assert result.loss == pytest.approx((2 * math.log(2) + 2 * math.log(4)) / 4)
    assert result.accuracy == 0.5
    assert result.confusion is not None
    assert result.confusion.tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 1]]
    assert model.training


def test_the_sums_of_all_processes_are_added() -> None:
    rows = Rows(torch.eye(2), torch.tensor([0, 0]))
    double = evaluate(
        Echo(), evaluation_batches(rows, 2), ClassificationMeter(2, CPU), CPU, reduce=lambda tensor: 2 * tensor
    )
    assert double.accuracy == 0.5
    assert double.confusion is not None
    assert double.confusion.tolist() == [[2, 2], [0, 0]]


def test_the_mode_is_restored_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    model[1].eval()  # a layer that the user keeps in evaluation mode
    rows = Rows(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(RuntimeError):  # the rows have three features
        evaluate(model, evaluation_batches(rows, 2), ClassificationMeter(2, CPU), CPU)
    assert (model.training, model[0].training, model[1].training) == (True, True, False)


def test_there_is_no_confusion_matrix_of_very_many_classes() -> None:
    num_classes = 200_000  # the matrix would take 320 GB
    rows = Rows(torch.zeros(2, num_classes), torch.tensor([0, 1]))
    result = evaluate(Echo(), evaluation_batches(rows, 2), ClassificationMeter(num_classes, CPU), CPU)
    assert (result.accuracy, result.confusion) == (0.5, None)
    assert result.as_dict() == {"accuracy": 0.5, "loss": result.loss}


@pytest.mark.parametrize("batch_size", [2, 50])
def test_no_more_outputs_are_in_memory_than_those_of_a_batch(batch_size: int) -> None:
    counts = []

    class Wide(nn.Module):
        """A model with few features and many classes."""

        def forward(self, x: Tensor) -> Tensor:
            counts.append(len(x))
            return x.new_zeros(len(x), 10_000)

    rows = Rows(torch.zeros(100, 4), torch.zeros(100, dtype=torch.int64))
    meter = ClassificationMeter(10_000, CPU)
    evaluate(Wide(), evaluation_batches(rows, batch_size), meter, CPU)
    assert counts == [batch_size] * (100 // batch_size)
