"""Look-alike jets, made from figures of real ones."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from chop.dataset.base import Rows


class Figures(NamedTuple):
    """What the generator knows of the real jets (OpenML 42468), class by class."""

    counts: Tensor  # [classes], of 1,000 real rows
    quantiles: Tensor  # [classes, levels, features] at evenly spaced levels from 0 to 1
    mixing: Tensor  # [classes, features, features], Cholesky factors of the normal scores' correlations


@lru_cache(maxsize=2)
def generate_rows(num_rows: int, seed: int) -> Rows:
    """Look-alike jets in physical units, class after class; kept, so do not write to them."""
    return draw_rows(read_figures(), num_rows, seed)


def draw_rows(figures: Figures, num_rows: int, seed: int) -> Rows:
    """Rows with the given figures, class after class.

    A Gaussian copula for each class: correlated normal numbers, made uniform by the normal distribution
    function and then real by the feature's quantiles. The figures' correlations are shrunk by 5 %, so that
    `d2_b1_mmdt` and `d2_a1_b1_mmdt`, which are equal in real jets, are merely alike.
    """
    generator = torch.Generator().manual_seed(seed)
    features, labels = [], []
    for kind, count in enumerate(_share_out(num_rows, figures.counts)):
        normal = torch.randn(count, figures.quantiles.shape[2], generator=generator) @ figures.mixing[kind].T
        features.append(_at_levels(figures.quantiles[kind], torch.special.ndtr(normal)))
        labels.append(torch.full((count,), kind))
    return Rows(torch.cat(features), torch.cat(labels))


@cache
def read_figures() -> Figures:
    """The figures that are shipped with the package."""
    content = json.loads(Path(__file__).with_name("jsc_figures.json").read_text(encoding="utf-8"))
    correlation = torch.tensor(content["correlation"], dtype=torch.float64)
    return Figures(
        counts=torch.tensor(content["class_counts_of_1000"]),
        quantiles=torch.tensor(content["quantiles"]),
        mixing=torch.linalg.cholesky(correlation).float(),
    )


def _share_out(num_rows: int, counts: Tensor) -> list[int]:
    """Whole numbers in the proportion of `counts` that add up to `num_rows`."""
    ends = (counts.cumsum(0).double() * num_rows / counts.sum()).round().long()
    shares: list[int] = ends.diff(prepend=ends.new_zeros(1)).tolist()
    return shares


def _at_levels(quantiles: Tensor, levels: Tensor) -> Tensor:
    """The value at each level in [0, 1], feature by feature, by straight lines between `quantiles`."""
    position = levels * (len(quantiles) - 1)
    below = position.long().clamp(max=len(quantiles) - 2)
    return torch.lerp(quantiles.gather(0, below), quantiles.gather(0, below + 1), position - below)
