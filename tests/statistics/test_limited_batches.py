"""A limited number of rows, without drawing more batches than needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from chop.statistics.batches import LabelledBatch, limited_batches, limited_labelled_batches, num_rows


def endless(drawn: list[int]) -> Iterator[LabelledBatch]:
    while True:
        start = 4 * len(drawn)
        drawn.append(start)
        rows = torch.arange(start, start + 4)
        yield {"x": rows.float(), "scale": torch.tensor(2.0), "table": torch.zeros(3, 2)}, rows


def test_the_last_batch_is_cut_and_no_other_is_drawn() -> None:
    drawn: list[int] = []
    found = list(limited_labelled_batches(endless(drawn), 6))
    assert [inputs["x"].tolist() for inputs, _ in found] == [[0, 1, 2, 3], [4, 5]]
    assert [labels.tolist() for _, labels in found if labels is not None] == [[0, 1, 2, 3], [4, 5]]
    assert all(inputs["table"].shape == (3, 2) and inputs["scale"].ndim == 0 for inputs, _ in found)
    drawn.clear()
    assert len(list(limited_labelled_batches(endless(drawn), 8))) == len(drawn) == 2


def test_batches_without_labels_are_limited_in_the_same_way() -> None:
    drawn: list[int] = []
    found = list(limited_batches((inputs for inputs, _ in endless(drawn)), 6))
    assert [inputs["x"].tolist() for inputs in found] == [[0, 1, 2, 3], [4, 5]]
    assert len(drawn) == 2


def test_the_first_tensor_decides_the_number_of_rows() -> None:
    assert num_rows({"training": True, "x": torch.zeros(5, 2), "y": torch.zeros(3)}) == 5
    assert num_rows({"x": torch.tensor(1.0)}) == 1


def test_a_batch_that_is_not_a_dict_is_refused() -> None:
    wrong: Any = [(torch.zeros(2), None)]
    with pytest.raises(ValueError, match=r"must be dicts such as {'x': tensor}, got Tensor"):
        list(limited_labelled_batches(wrong, 2))


@pytest.mark.parametrize("number", [0, -3])
def test_the_number_of_rows_must_be_at_least_one(number: int) -> None:
    with pytest.raises(ValueError, match=f"'num_samples' must be at least 1, got {number}"):
        list(limited_labelled_batches(endless([]), number))
