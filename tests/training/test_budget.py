"""Budgets of accuracy: the bound of a loss on the same rows, and the choice that keeps it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from chop.dataset import Rows
from chop.dataset.base import Splits
from chop.training.budget import HELD_BACK, ONE_SIDED_95, TEST, VALIDATION, Budget, Correct, PairedLoss


@pytest.mark.parametrize("num_rows", [100, 144, 1000])
def test_without_a_changed_row_the_limit_is_z2_over_n_plus_z2(num_rows: int) -> None:
    expected = 100 * ONE_SIDED_95**2 / (num_rows + ONE_SIDED_95**2)
    assert PairedLoss("", num_rows, 0, 0).limit == pytest.approx(expected, abs=1e-5)


def test_the_limit_solves_the_score_equation_with_the_most_likely_share_of_gained_rows() -> None:
    loss = PairedLoss("", 1000, 12, 5)
    limit = loss.limit / 100
    assert loss.points == pytest.approx(0.7)

    def log_likelihood(gained: float) -> float:
        both = 1 - 2 * gained - limit
        return 12 * math.log(gained + limit) + 5 * math.log(gained) + 983 * math.log(both)

    gained = max((step / 1e6 for step in range(1, 60_000)), key=log_likelihood)
    error = math.sqrt((2 * gained + limit - limit**2) / 1000)
    assert (limit - 0.007) / error == pytest.approx(ONE_SIDED_95, abs=1e-3)


def test_the_limit_of_many_rows_is_that_of_the_normal_approximation() -> None:
    loss = PairedLoss("", 1_000_000, 12_000, 5_000)
    error = math.sqrt((0.017 - 0.007**2) / 1e6)
    assert loss.limit == pytest.approx(100 * (0.007 + ONE_SIDED_95 * error), abs=1e-3)


def test_lost_and_gained_rows_are_counted_on_the_same_rows() -> None:
    original, changed = torch.tensor([1, 1, 1, 0, 0]).bool(), torch.tensor([1, 0, 0, 1, 0]).bool()
    assert PairedLoss.between("test", original, changed) == PairedLoss("test", 5, 2, 1)


def rows(count: int, start: int = 0) -> Rows:
    """Rows that hold their own number, with label 0."""
    return Rows(torch.arange(start, start + count).float().unsqueeze(1), torch.zeros(count, dtype=torch.int64))


def splits(train: int = 4000, val: int = 1000, test: int = 500) -> Splits:
    return Splits(rows(train), rows(val, 10_000), rows(test, 20_000))


def wrong_on(*numbers: int) -> Correct:
    def correct(given: Rows) -> Tensor:
        return ~torch.isin(given.features[:, 0], torch.tensor(numbers, dtype=torch.float32))

    return correct


def budget(max_drop: float = 1.0, num_rows: int = 10_000, *, trains: bool = False, **sizes: int) -> Budget:
    return Budget.on(max_drop, splits(**sizes), num_rows, wrong_on(), trains=trains)


VALIDATION_ROWS, TRAINING_ROWS, TEST_ROWS = range(10_000, 11_000), range(4000), range(20_000, 20_500)


def test_the_first_candidate_within_the_budget_on_validation_and_held_back_rows_is_chosen() -> None:
    candidates = {
        "9 of 1,000 validation rows lost, which may be 1.6 %": wrong_on(*VALIDATION_ROWS[:9]),
        "2 % of the rows held back lost": wrong_on(*TRAINING_ROWS[::50]),
        "few lost": wrong_on(*VALIDATION_ROWS[:3], *TRAINING_ROWS[:8], *TEST_ROWS[:20]),
        "none lost": wrong_on(),
    }
    choice = budget().choose(candidates, candidates.__getitem__)
    assert choice is not None
    assert (choice.candidate, choice.num_failed) == ("few lost", 1)
    assert [(loss.rows, loss.num_rows, loss.lost) for loss in choice.losses] == [
        (VALIDATION, 1000, 3),
        (HELD_BACK, 4000, 8),
        (TEST, 500, 20),  # 4 points: the test split is not looked at
    ]
    assert choice.summary[TEST]["points"] == pytest.approx(4.0)
    assert "1 other choice lost too much on rows held back" in choice.text


def test_without_a_sure_candidate_the_surest_that_measured_no_larger_loss_is_chosen() -> None:
    candidates = {
        "9 lost": wrong_on(*VALIDATION_ROWS[:9]),
        "7 lost": wrong_on(*VALIDATION_ROWS[:7]),
        "6 lost, and 2 % of the rows held back": wrong_on(*VALIDATION_ROWS[:6], *TRAINING_ROWS[::50]),
    }
    choice = budget().choose(candidates, candidates.__getitem__)
    assert choice is not None
    assert (choice.candidate, choice.is_sure) == ("7 lost", False)
    assert "not sure: no choice loses at most 1 percentage point with 95 % confidence" in choice.text


def test_no_candidate_is_chosen_if_all_lose_too_much() -> None:
    assert budget().choose(["bad"], lambda _: wrong_on(*VALIDATION_ROWS)) is None


def test_with_few_rows_only_a_candidate_that_loses_none_is_chosen() -> None:
    candidates = {
        "one lost": wrong_on(10_001),
        "8 of 4,000 held back lost, which may be 0.35 %": wrong_on(*TRAINING_ROWS[:8]),
        "none": wrong_on(*TEST_ROWS, *TRAINING_ROWS[:4]),
    }
    choice = budget(val=144).choose(candidates, candidates.__getitem__)
    assert choice is not None
    assert choice.candidate == "none"
    assert choice.rows_are_few
    assert "144 rows cannot show a loss of at most 1 percentage point" in choice.text


def test_rows_are_held_back_from_the_validation_rows_left_or_else_from_training_rows_evenly_spaced() -> None:
    held_back = {
        "left": budget(num_rows=300).rows[HELD_BACK],
        "training": budget(num_rows=600, train=25_000).rows[HELD_BACK],
    }
    assert held_back["left"].features[:, 0].tolist() == list(range(10_300, 11_000))
    assert held_back["training"].features[:, 0].tolist() == list(range(0, 25_000, 3))


def test_trained_candidates_are_checked_on_half_of_the_validation_rows() -> None:
    found = budget(trains=True, val=101).rows
    assert found[VALIDATION].features[:, 0].tolist() == list(range(10_000, 10_051))
    assert found[HELD_BACK].features[:, 0].tolist() == list(range(10_051, 10_101))


def test_without_validation_rows_half_of_the_training_rows_take_their_place() -> None:
    found = budget(val=0, test=0).rows
    assert [(name, len(split.labels)) for name, split in found.items()] == [(VALIDATION, 2000), (HELD_BACK, 2000)]
