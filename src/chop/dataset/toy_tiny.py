"""A small synthetic data set: points inside and outside a ball."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from chop.dataset.base import DatasetInfo, Seeded, Splits, register_dataset
from chop.dataset.splits import check_num_rows, split_rows

MEDIAN_SQUARED_RADIUS = 3.3567  # chi-squared with 4 degrees of freedom: half of the points are outside


@register_dataset("toy_tiny")
@dataclass(frozen=True)
class ToyTiny(Seeded):
    """1,000 normally distributed points in 4 dimensions; the class is whether a point is outside a ball."""

    num_rows: int = 1000

    info: ClassVar[DatasetInfo] = DatasetInfo("toy_tiny", 4, 2, class_names=("inside", "outside"))

    def __post_init__(self) -> None:
        check_num_rows("toy_tiny", self.num_rows)

    def load(self) -> Splits:
        """Return the points in three splits."""
        generator = torch.Generator().manual_seed(self.seed)
        points = torch.randn(self.num_rows, self.info.num_features, generator=generator)
        labels = (points.square().sum(dim=1) > MEDIAN_SQUARED_RADIUS).long()
        return split_rows(points, labels, self.seed, provenance="synthetic", version="synthetic")
