"""Jet substructure classification: 16 features of a jet, 5 kinds of particle it may come from."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from chop.dataset.base import DatasetInfo, Rows, Splits, register_dataset
from chop.dataset.splits import split_rows, standardise

logger = logging.getLogger(__name__)

FEATURES = (
    "zlogz",
    "c1_b0_mmdt",
    "c1_b1_mmdt",
    "c1_b2_mmdt",
    "c2_b1_mmdt",
    "c2_b2_mmdt",
    "d2_b1_mmdt",
    "d2_b2_mmdt",
    "d2_a1_b1_mmdt",
    "d2_a1_b2_mmdt",
    "m2_b1_mmdt",
    "m2_b2_mmdt",
    "n2_b1_mmdt",
    "n2_b2_mmdt",
    "mass_mmdt",
    "multiplicity",
)
CLASSES = ("g", "q", "t", "w", "z")
GENERATED = "generated look-alike, not comparable with published results"


class Figures(NamedTuple):
    """What the generator knows of the real jets (OpenML 42468), class by class."""

    counts: Tensor  # [classes], of 1,000 real rows
    quantiles: Tensor  # [classes, levels, features] at evenly spaced levels from 0 to 1
    mixing: Tensor  # [classes, features, features], Cholesky factors of the normal scores' correlations


@register_dataset("jsc")
@dataclass(frozen=True)
class JSC:
    """Jet substructure classification; the rows are generated from figures of real jets."""

    seed: int = 42
    num_rows: int = 50_000

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "jsc", len(FEATURES), len(CLASSES), class_names=CLASSES, feature_names=FEATURES
    )

    def load(self) -> Splits:
        """Standardised rows; a warning says when they are not the published ones."""
        features, labels, provenance = load_rows(self.num_rows, self.seed)
        if provenance == GENERATED:
            logger.warning("data: jsc (%s)", provenance)
        return standardise(split_rows(features, labels, self.seed, provenance))


def load_rows(num_rows: int, seed: int) -> tuple[Tensor, Tensor, str]:
    """Features in physical units, class numbers, and where they come from."""
    if num_rows < 10:
        raise ValueError(f"data set 'jsc' needs num_rows of 10 or more, {num_rows} was given")
    rows = generate_rows(num_rows, seed)
    return rows.features, rows.labels, GENERATED


@lru_cache(maxsize=2)
def generate_rows(num_rows: int, seed: int) -> Rows:
    """Look-alike jets in physical units, class after class; kept, so do not write to them.

    A Gaussian copula for each class: correlated normal numbers, made uniform by the normal distribution
    function and then real by the feature's quantiles. The figures' correlations are shrunk by 5 %, so that
    `d2_b1_mmdt` and `d2_a1_b1_mmdt`, which are equal in real jets, are merely alike.
    """
    figures = read_figures()
    generator = torch.Generator().manual_seed(seed)
    features, labels = [], []
    for kind, count in enumerate(_share_out(num_rows, figures.counts)):
        normal = torch.randn(count, len(FEATURES), generator=generator) @ figures.mixing[kind].T
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
