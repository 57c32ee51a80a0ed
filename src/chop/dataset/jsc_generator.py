"""Generated jets with the statistics of real ones."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset.base import Rows

CHUNK = 2048  # rows that are computed together: they stay in the cache, and threads would only wait for each other


class JetStatistics(NamedTuple):
    """Statistics of the real jets (OpenML 42468), per class."""

    counts: Tensor  # [classes], in 1,000 real rows
    quantiles: Tensor  # [classes, levels, features] at evenly spaced levels from 0 to 1
    mixing: Tensor  # [classes, features, features], Cholesky factors of the correlations of normal scores


@lru_cache(maxsize=2)
def generate_rows(num_rows: int, seed: int) -> Rows:
    """Return generated jets in physical units, sorted by class; the tensors are cached, do not modify them."""
    return draw_rows(read_statistics(), num_rows, seed)


def draw_rows(statistics: JetStatistics, num_rows: int, seed: int) -> Rows:
    """Return random rows with the given statistics, sorted by class.

    Each class is a Gaussian copula: correlated normal numbers are mapped to uniform ones by the normal
    distribution function, and then to values by the quantiles of the feature. The correlations are reduced by 5 %,
    so that `d2_b1_mmdt` and `d2_a1_b1_mmdt`, which are equal in real jets, are only similar.
    """
    generator = torch.Generator().manual_seed(seed)
    features, labels = [], []
    ends = (statistics.counts.cumsum(0).double() * num_rows / statistics.counts.sum()).round().long()
    for kind, count in enumerate(ends.diff(prepend=ends.new_zeros(1)).tolist()):
        normal = torch.randn(count, statistics.quantiles.shape[2], generator=generator) @ statistics.mixing[kind].T
        features += [
            _at_levels(statistics.quantiles[kind], torch.special.ndtr(part)) for part in normal.split(CHUNK)
        ]
        labels.append(torch.full((count,), kind))
    return Rows(torch.cat(features), torch.cat(labels))


@cache
def read_statistics() -> JetStatistics:
    """Return the statistics that are part of the package."""
    content = json.loads(Path(__file__).with_name("jsc_figures.json").read_text(encoding="utf-8"))
    correlation = torch.tensor(content["correlation"], dtype=torch.float64)
    return JetStatistics(
        counts=torch.tensor(content["class_counts_of_1000"]),
        quantiles=torch.tensor(content["quantiles"]),
        mixing=torch.linalg.cholesky(correlation).float(),
    )


def _at_levels(quantiles: Tensor, levels: Tensor) -> Tensor:
    """Return the value at each level in [0, 1], per feature, by linear interpolation between `quantiles`."""
    position = levels * (len(quantiles) - 1)
    below = position.long().clamp(max=len(quantiles) - 2)
    return torch.lerp(quantiles.gather(0, below), quantiles.gather(0, below + 1), position - below)
