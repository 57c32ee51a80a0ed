"""Splitting and standardising rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import pytest
import torch

from chop.dataset import Rows, Splits
from chop.dataset.splits import choose_validation, shorten, split_as_published, split_rows, standardise


def test_splits_have_the_right_sizes_and_share_no_row() -> None:
    splits = split_rows(torch.arange(1000.0).reshape(-1, 1), torch.arange(1000), seed=1, provenance="numbers")
    numbers = [part.features.flatten().tolist() for part in (splits.train, splits.val, splits.test)]
    assert [len(part) for part in numbers] == [720, 80, 200]
    assert sorted(chain(*numbers)) == list(range(1000))
    assert all(part.features.flatten().equal(part.labels.float()) for part in (splits.train, splits.val))
    assert splits.provenance == "numbers"


def test_a_different_seed_gives_different_splits() -> None:
    features, labels = torch.arange(100.0).reshape(-1, 1), torch.zeros(100, dtype=torch.int64)
    first, again, other = (split_rows(features, labels, seed).test.features for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


def test_only_the_training_split_determines_the_scale() -> None:
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


def test_images_are_scaled_per_channel() -> None:
    pixels = torch.randn(50, 2, 3, 3) * torch.tensor([1.0, 9.0]).reshape(1, 2, 1, 1) + 4
    scaled = standardise(split_rows(pixels, torch.zeros(50).long(), seed=0))
    torch.testing.assert_close(scaled.train.features.mean(dim=(0, 2, 3)), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.train.features.std(dim=(0, 2, 3), correction=0), torch.ones(2))


@pytest.mark.parametrize("num_rows", [10, 99, 1000, 1001, 1004])
def test_the_published_test_split_is_that_of_scikit_learn(num_rows: int) -> None:
    from sklearn.model_selection import train_test_split  # here, because it takes seconds

    rows = torch.arange(num_rows)
    train, test = train_test_split(rows.numpy(), test_size=0.2, random_state=42)
    splits = split_as_published(rows.float().reshape(-1, 1), rows, seed=3)
    assert splits.test.labels.tolist() == test.tolist()
    assert sorted([*splits.train.labels.tolist(), *splits.val.labels.tolist()]) == sorted(train.tolist())
    assert len(splits.val.labels) == round(len(train) / 10)


def test_a_tenth_is_for_validation() -> None:
    train, val = choose_validation(100, seed=1)
    assert (len(train), len(val)) == (90, 10)
    assert sorted([*train.tolist(), *val.tolist()]) == list(range(100))
    assert not choose_validation(100, seed=2)[1].equal(val)


def test_shortened_splits_keep_their_first_rows() -> None:
    whole = split_rows(torch.arange(1000.0).reshape(-1, 1), torch.arange(1000), seed=1)
    few = shorten(whole, 100)
    assert few.train.labels.equal(whole.train.labels[:72])
    assert few.val.labels.equal(whole.val.labels[:8])
    assert few.test.labels.equal(whole.test.labels[:20])


def test_the_digest_depends_on_every_bit_of_every_split() -> None:
    def rows() -> Rows:
        return Rows(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))

    splits = Splits(rows(), rows(), rows())
    assert splits.sha256 == Splits(rows(), rows(), rows(), provenance="another text").sha256
    changed = rows()
    changed.features[2, 1] = 5.0000005
    swapped = Rows(rows().features, torch.tensor([1, 0, 0]))
    others = [replace(splits, test=changed), replace(splits, val=swapped)]
    assert len({splits.sha256, *(other.sha256 for other in others)}) == 3
