"""Batches of rows in memory: every row once per epoch, ordered by the seed, shared by processes."""

from __future__ import annotations

import pytest
import torch

from chop.dataset import Rows
from chop.training import batches
from chop.training.batches import evaluation_batches, num_batches, shuffled_batches, to_device


def make_rows(count: int) -> Rows:
    numbers = torch.arange(count)
    return Rows(numbers.float()[:, None].expand(count, 3).contiguous(), numbers)


@pytest.mark.parametrize(
    ("count", "size", "expected"), [(10, 4, [4, 4, 2]), (8, 4, [4, 4]), (3, 4, [3]), (1, 4, [1])]
)
def test_an_epoch_has_every_row_once(count: int, size: int, expected: list[int]) -> None:
    found = list(shuffled_batches(make_rows(count), size, seed=0, epoch=0))
    assert [batch.num_rows for batch in found] == expected
    assert num_batches(count, size) == len(expected)
    assert torch.cat([batch.labels for batch in found]).sort().values.tolist() == list(range(count))
    for batch in found:
        assert batch.features[:, 0].equal(batch.labels.float())


def test_a_last_batch_of_one_row_joins_the_previous_batch() -> None:
    assert [batch.num_rows for batch in shuffled_batches(make_rows(9), 4, seed=0, epoch=0)] == [4, 5]
    assert [batch.num_rows for batch in shuffled_batches(make_rows(3), 1, seed=0, epoch=0)] == [1, 1, 1]


def order(seed: int, epoch: int, skip: int = 0) -> list[int]:
    found = shuffled_batches(make_rows(20), 4, seed, epoch, skip=skip)
    return [number for batch in found for number in batch.labels.tolist()]


def test_only_seed_and_epoch_decide_the_order() -> None:
    first = order(0, 0)
    torch.manual_seed(99)
    assert order(0, 0) == first != list(range(20))
    assert order(0, 1) != first != order(1, 0)


def test_the_global_random_state_is_unchanged() -> None:
    before = torch.get_rng_state()
    order(0, 0)
    assert torch.get_rng_state().equal(before)


def test_an_epoch_can_be_resumed_in_the_middle() -> None:
    assert order(0, 3, skip=2) == order(0, 3)[8:]


def test_gathering_in_several_steps_gives_the_same_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = order(0, 0)
    monkeypatch.setattr(batches, "MAX_GATHER_NUMEL", 24)  # two batches of 4 x 3 elements
    assert order(0, 0) == expected


def test_processes_share_each_batch() -> None:
    batches_of_one = list(shuffled_batches(make_rows(11), 4, seed=0, epoch=0))
    shares = [list(shuffled_batches(make_rows(11), 4, seed=0, epoch=0, rank=rank, world_size=2)) for rank in (0, 1)]
    for batch, first, second in zip(batches_of_one, *shares, strict=True):
        assert torch.cat([first.labels, second.labels]).equal(batch.labels)
        assert first.num_rows == second.num_rows == len(batch.labels)


def test_evaluation_uses_batches_of_the_given_size_in_order() -> None:
    found = list(evaluation_batches(make_rows(12), 5))
    assert [batch.labels.tolist() for batch in found] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert [batch.num_rows for batch in evaluation_batches(make_rows(12), 8)] == [8, 4]


def test_rows_on_the_cpu_are_not_copied() -> None:
    rows = make_rows(3)
    assert to_device(rows, torch.device("cpu")) is rows
