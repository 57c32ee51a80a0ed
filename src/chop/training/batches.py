"""Rows in memory to batches: one gather for many batches, instead of one for each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset import Rows

GATHER_NUMBERS = 2**24  # numbers that one gather copies at most: 64 MB
EVALUATION_NUMBERS = 2**20  # numbers in a batch that is only evaluated


class Batch(NamedTuple):
    """The part of a batch that this process works on, and how many rows the whole batch has."""

    features: Tensor
    labels: Tensor
    num_rows: int


def place(rows: Rows, device: torch.device) -> Rows:
    """The rows on the device if they take at most half of its free memory, else where they are."""
    size = rows.features.nbytes + rows.labels.nbytes
    if device.type == "cpu" or (device.type == "cuda" and 2 * size > torch.cuda.mem_get_info(device)[0]):
        return rows
    return Rows(rows.features.to(device), rows.labels.to(device))


def num_batches(num_rows: int, batch_size: int) -> int:
    return len(_sizes(num_rows, batch_size))


def shuffled(
    rows: Rows, batch_size: int, seed: int, epoch: int, *, skip: int = 0, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """The batches of an epoch, in an order that `seed` and `epoch` decide; the first `skip` are left out."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    order = torch.randperm(len(rows.labels), generator=generator)
    sizes = _sizes(len(order), batch_size)
    order, sizes = order[sum(sizes[:skip]) :], sizes[skip:]
    at_once = max(1, GATHER_NUMBERS // (batch_size * max(1, rows.features[0].numel())))
    for start in range(0, len(sizes), at_once):
        some = sizes[start : start + at_once]
        here, order = order[: sum(some)].to(rows.labels.device), order[sum(some) :]
        gathered = Rows(rows.features.index_select(0, here), rows.labels.index_select(0, here))
        yield from _cut(gathered, some, rank, world_size)


def in_order(rows: Rows, batch_size: int, *, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
    """The rows as they come, in batches that are large where rows are small: for evaluation."""
    size = max(batch_size, EVALUATION_NUMBERS // max(1, rows.features[0].numel())) if len(rows.labels) else 1
    sizes = [len(part) for part in rows.labels.split(size)]
    yield from _cut(rows, sizes, rank, world_size)


def _sizes(num_rows: int, batch_size: int) -> list[int]:
    """Batches of `batch_size` and a rest; a rest of one row joins the batch before, as BatchNorm wants two."""
    sizes = [batch_size] * (num_rows // batch_size)
    rest = num_rows % batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes


def _cut(rows: Rows, sizes: list[int], rank: int, world_size: int) -> Iterator[Batch]:
    features, labels = rows.features.split(sizes), rows.labels.split(sizes)
    for x, y in zip(features, labels, strict=True):
        if world_size > 1:
            yield Batch(x.tensor_split(world_size)[rank], y.tensor_split(world_size)[rank], len(y))
        else:
            yield Batch(x, y, len(y))
