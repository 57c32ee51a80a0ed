"""Batches from rows in memory, one gather for many of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset import Rows
from chop.training.seeds import derived_seed

MAX_GATHER_NUMEL = 2**24  # elements that one gather copies: 64 MB of float32


class Batch(NamedTuple):
    """The rows of a batch that this process works on, and the number of rows of all processes."""

    features: Tensor
    labels: Tensor
    num_rows: int


def to_device(rows: Rows, device: torch.device) -> Rows:
    """Return the rows on the device if they take at most half of its free memory, else the rows unchanged."""
    size = rows.features.nbytes + rows.labels.nbytes
    if device.type == "cpu" or (device.type == "cuda" and 2 * size > torch.cuda.mem_get_info(device)[0]):
        return rows
    return Rows(rows.features.to(device), rows.labels.to(device))


def num_batches(num_rows: int, batch_size: int) -> int:
    """Return the number of batches per epoch."""
    return len(_batch_sizes(num_rows, batch_size))


def shuffled_batches(
    rows: Rows, batch_size: int, seed: int, epoch: int, *, skip: int = 0, rank: int = 0, world_size: int = 1
) -> Iterator[Batch]:
    """Yield the batches of an epoch without the first `skip`; `seed` and `epoch` decide the order of the rows."""
    generator = torch.Generator().manual_seed(derived_seed(seed, epoch))
    order = torch.randperm(len(rows.labels), generator=generator)
    sizes = _batch_sizes(len(order), batch_size)
    order, sizes = order[sum(sizes[:skip]) :], sizes[skip:]
    batches_per_gather = max(1, MAX_GATHER_NUMEL // (batch_size * max(1, rows.features[0].numel())))
    for start in range(0, len(sizes), batches_per_gather):
        some = sizes[start : start + batches_per_gather]
        indices, order = order[: sum(some)].to(rows.labels.device), order[sum(some) :]
        gathered = Rows(rows.features.index_select(0, indices), rows.labels.index_select(0, indices))
        yield from _split(gathered, some, rank, world_size)


def evaluation_batches(rows: Rows, batch_size: int, *, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
    """Yield the rows in their order, in batches of `batch_size`, on which the memory for outputs depends."""
    sizes = [len(labels) for labels in rows.labels.split(batch_size)]
    yield from _split(rows, sizes, rank, world_size)


def _batch_sizes(num_rows: int, batch_size: int) -> list[int]:
    """Return the sizes of all batches: 65 rows in batches of 32 are [32, 33], because BatchNorm needs two rows."""
    sizes = [batch_size] * (num_rows // batch_size)
    rest = num_rows % batch_size
    if rest == 1 and sizes:
        sizes[-1] += 1
    elif rest:
        sizes.append(rest)
    return sizes


def _split(rows: Rows, sizes: list[int], rank: int, world_size: int) -> Iterator[Batch]:
    features, labels = rows.features.split(sizes), rows.labels.split(sizes)
    for x, y in zip(features, labels, strict=True):
        if world_size > 1:
            yield Batch(x.tensor_split(world_size)[rank], y.tensor_split(world_size)[rank], len(y))
        else:
            yield Batch(x, y, len(y))
