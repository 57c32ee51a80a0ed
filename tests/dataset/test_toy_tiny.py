"""Points inside and outside a ball."""

from __future__ import annotations

from chop.dataset import ToyTiny


def test_points_are_labelled_by_their_distance() -> None:
    train = ToyTiny().load().train
    assert train.features.shape == (720, 4)
    nearest_outside = train.features[train.labels == 1].norm(dim=1).min()
    farthest_inside = train.features[train.labels == 0].norm(dim=1).max()
    assert farthest_inside < 1.8322 < nearest_outside  # the square root of the chi-squared median, 3.3567


def test_classes_are_balanced() -> None:
    labels = ToyTiny(num_rows=100_000).load().train.labels
    assert abs(labels.float().mean() - 0.5) < 0.01
