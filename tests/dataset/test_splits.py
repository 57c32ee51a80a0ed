"""Splitting and standardising rows."""

from __future__ import annotations

from itertools import chain

import torch

from chop.dataset.splits import split_rows, standardise


def test_parts_have_the_right_sizes_and_share_no_row() -> None:
    splits = split_rows(torch.arange(1000.0).reshape(-1, 1), torch.arange(1000), seed=1, provenance="numbers")
    numbers = [part.features.flatten().tolist() for part in (splits.train, splits.val, splits.test)]
    assert [len(part) for part in numbers] == [720, 80, 200]
    assert sorted(chain(*numbers)) == list(range(1000))
    assert all(part.features.flatten().equal(part.labels.float()) for part in (splits.train, splits.val))
    assert splits.provenance == "numbers"


def test_another_seed_gives_other_parts() -> None:
    features, labels = torch.arange(100.0).reshape(-1, 1), torch.zeros(100, dtype=torch.int64)
    first, again, other = (split_rows(features, labels, seed).test.features for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_the_training_part_alone_sets_the_scale() -> None:
    splits = split_rows(torch.randn(500, 3) * torch.tensor([1.0, 20.0, 300.0]) + 7, torch.zeros(500).long(), seed=0)
    scaled = standardise(splits)
    assert scaled.scaling is not None
    torch.testing.assert_close(scaled.train.features.mean(0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.train.features.std(0, correction=0), torch.ones(3))
    torch.testing.assert_close(scaled.test.features, scaled.scaling(splits.test.features))
    assert scaled.test.features.mean(0).abs().max() > 1e-3


def test_a_constant_feature_becomes_zero() -> None:
    scaled = standardise(split_rows(torch.full((50, 1), 3.0), torch.zeros(50).long(), seed=0))
    assert scaled.train.features.eq(0).all()
