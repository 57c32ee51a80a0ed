"""Seeds that are derived from the seed of a run."""

from __future__ import annotations

import itertools

import pytest

from chop.training.seeds import derived_seed


def test_derived_seeds_stay_the_same_in_every_version() -> None:
    assert derived_seed(2) == 2
    assert derived_seed(2, 5) == 2_000_011
    assert derived_seed(2, 5, 1) == 2_018_011_100


def test_derived_seeds_differ() -> None:
    found = [derived_seed(*numbers) for numbers in itertools.product(range(3), range(50), range(8))]
    assert len(set(found)) == len(found)


def test_more_numbers_than_factors_are_an_error() -> None:
    with pytest.raises(ValueError, match="zip"):
        derived_seed(0, 1, 2, 3)
