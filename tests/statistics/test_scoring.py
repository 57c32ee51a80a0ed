"""Loss and accuracy, compared with torch and with hand-computed numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from chop.dataset.splits import IGNORED
from chop.formats.kernels import run
from chop.formats.kernels.row_statistics import row_scores
from chop.statistics import scoring
from chop.statistics.scoring import Score, add_output, fast_scores, num_correct


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("shape", [(64, 5), (3, 1000), (2, 7, 4)])
def test_the_loss_agrees_with_torch(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    logits = 10 * torch.randn(shape)
    labels = torch.randint(0, shape[1], (shape[0], *shape[2:]))
    loss, correct = fast_scores(logits, labels)
    assert loss == pytest.approx(F.cross_entropy(logits, labels, reduction="sum").item(), rel=1e-5)
    assert correct == num_correct(logits, labels).item()


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("logit", [0.0, -0.0, math.inf, -math.inf, math.nan, 3.0e38])
def test_the_compiled_loop_scores_rows_as_the_eager_definition_does(logit: float) -> None:
    logits = torch.randn(3000, 5).relu_()  # many rows with equal logits
    logits[::7, 2] = logit
    labels = torch.randint(0, 5, (3000,))
    compiled, eager = row_scores(logits, labels), scoring._eager_row_scores(logits, labels)
    if compiled is not None:
        assert all(map(torch.equal, compiled[:3], eager[:3]))
        assert compiled.num_correct == eager.num_correct
    assert (compiled is None) == (not run.settings.enabled or math.isnan(logit))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("label", [-1, 5, 2**32])
def test_a_label_that_is_not_a_class_is_refused(label: int) -> None:
    with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
        fast_scores(torch.randn(8, 5), torch.full((8,), label))


@pytest.mark.usefixtures("loops")
def test_infinite_logits_are_scored_as_torch_does_it() -> None:
    logits = torch.tensor([[math.inf, 0.0], [-math.inf, 0.0], [3.0e38, -3.0e38]])
    labels = torch.tensor([1, 1, 0])
    for row, label in zip(logits.split(1), labels.split(1), strict=True):
        expected = row.logsumexp(dim=1).item() - row[0, label].item()
        assert fast_scores(row, label)[0] == expected


def test_a_language_model_is_scored_a_few_tokens_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(3, 7, 5), torch.randint(0, 5, (3, 7))
    labels[1, :4] = IGNORED
    monkeypatch.setattr(scoring, "MAX_SCORES", 10)  # two tokens
    assert max(len(rows) for rows, _ in scoring.by_text(logits, labels)) == 2
    score = Score()
    score.add(logits, labels)
    loss, accuracy = score.read()
    assert loss == pytest.approx(
        F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED).item()
    )
    assert accuracy == (logits.argmax(-1) == labels).sum().item() / 17


def test_two_rows_agree_with_hand_computed_numbers() -> None:
    logits = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0]])  # probabilities 1/2, 1/2 and 3/4, 1/4
    labels = torch.tensor([0, 1])
    loss, correct = fast_scores(logits, labels)
    assert loss == pytest.approx(math.log(2) + math.log(4))
    assert correct == num_correct(logits, labels).item() == 1  # of two equal logits, the first counts


def test_batches_add_up_and_continue_from_saved_totals() -> None:
    torch.manual_seed(0)
    logits, labels = torch.randn(10, 3).double(), torch.randint(0, 3, (10,))
    once, first, then = Score(), Score(), Score()
    once.add(logits, labels)
    first.add(logits[:4], labels[:4])
    then.restore(first.totals())
    then.add(logits[4:], labels[4:], loss_sum=F.cross_entropy(logits[4:], labels[4:], reduction="sum"))
    assert then.read() == pytest.approx(once.read())
    assert once.read()[1] == (logits.argmax(1) == labels).double().mean().item()
    assert then.num_samples == 10


def test_totals_of_several_processes_are_reduced() -> None:
    score = Score()
    score.add(torch.zeros(2, 2), torch.tensor([0, 1]))
    assert score.read(lambda totals: totals + torch.tensor([0.0, 2.0, 2.0]))[1] == 0.75


def test_without_samples_loss_and_accuracy_are_zero() -> None:
    assert Score().read() == (0.0, 0.0)


def test_gradients_are_not_kept() -> None:
    score, logits = Score(), torch.zeros(2, 2, requires_grad=True)
    score.add(logits, torch.tensor([0, 1]))
    assert not score.totals().requires_grad


def test_the_first_tensor_of_an_output_has_the_logits() -> None:
    score = Score()
    add_output(
        score, {"logits": torch.zeros(2, 4), "hidden": torch.ones(3)}, torch.tensor([0, 3], dtype=torch.int32)
    )
    loss, accuracy = score.read()
    assert loss == pytest.approx(math.log(4))
    assert accuracy == 0.5


@pytest.mark.parametrize(
    ("output", "labels", "message"),
    [
        ({}, torch.tensor([0]), "returns no tensor"),
        (torch.zeros(1, 2), torch.tensor([0.5]), "must be integer class indices, got a tensor of torch.float32"),
        (torch.zeros(2, 3), torch.tensor([0]), r"labels of shape \[1\] do not fit an output of shape \[2, 3\]"),
        (torch.zeros(2), torch.tensor([0, 1]), r"labels of shape \[2\] do not fit an output of shape \[2\]"),
        (torch.zeros(1, 2), torch.tensor([2]), "out of bounds"),
    ],
)
def test_labels_that_do_not_fit_are_refused(output: Any, labels: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_output(Score(), output, labels)
