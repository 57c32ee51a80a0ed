"""Batches of rows in memory: each row once, an order that the seed decides, shares of several processes."""

from __future__ import annotations

import pytest
import torch

from chop.dataset import Rows
from chop.training import batches
from chop.training.batches import in_order, num_batches, place, shuffled


def make_rows(count: int) -> Rows:
    numbers = torch.arange(count)
    return Rows(numbers.float()[:, None].expand(count, 3).contiguous(), numbers)


@pytest.mark.parametrize(
    ("count", "size", "expected"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 4, [3]), (1, 4, [1])]
)
def test_an_epoch_has_every_row_once(count: int, size: int, expected: list[int]) -> None:
    found = list(shuffled(make_rows(count), size, seed=0, epoch=0))
    assert [batch.num_rows for batch in found] == expected
    assert num_batches(count, size) == len(expected)
    assert torch.cat([batch.labels for batch in found]).sort().values.tolist() == list(range(count))
    for batch in found:
        assert batch.features[:, 0].equal(batch.labels.float())


def test_a_single_row_that_is_left_joins_the_batch_before() -> None:
    assert [batch.num_rows for batch in shuffled(make_rows(9), 4, seed=0, epoch=0)] == [4, 5]
    assert [batch.num_rows for batch in shuffled(make_rows(3), 1, seed=0, epoch=0)] == [1, 1, 1]


def order(seed: int, epoch: int, skip: int = 0) -> list[int]:
    found = shuffled(make_rows(20), 4, seed, epoch, skip=skip)
    return [number for batch in found for number in batch.labels.tolist()]


def test_seed_and_epoch_decide_the_order_and_nothing_else() -> None:
    first = order(0, 0)
    torch.manual_seed(99)
    assert order(0, 0) == first != list(range(20))
    assert order(0, 1) != first != order(1, 0)


def test_the_global_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    order(0, 0)
    assert torch.get_rng_state().equal(before)


def test_an_epoch_can_go_on_in_the_middle() -> None:
    assert order(0, 3, skip=2) == order(0, 3)[8:]


def test_data_that_are_gathered_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = order(0, 0)
    monkeypatch.setattr(batches, "GATHER_NUMBERS", 24)  # two batches of 4 x 3 numbers
    assert order(0, 0) == whole


def test_processes_share_each_batch() -> None:
    whole = list(shuffled(make_rows(11), 4, seed=0, epoch=0))
    parts = [list(shuffled(make_rows(11), 4, seed=0, epoch=0, rank=rank, world_size=2)) for rank in (0, 1)]
    for batch, first, second in zip(whole, *parts, strict=True):
        assert torch.cat([first.labels, second.labels]).equal(batch.labels)
        assert first.num_rows == second.num_rows == len(batch.labels)


def test_evaluation_takes_large_batches_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "EVALUATION_NUMBERS", 15)
    found = list(in_order(make_rows(12), 4))
    assert [batch.labels.tolist() for batch in found] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert [batch.num_rows for batch in in_order(make_rows(12), 8)] == [8, 4]


def test_rows_stay_where_they_are_on_the_cpu() -> None:
    rows = make_rows(3)
    assert place(rows, torch.device("cpu")) is rows
