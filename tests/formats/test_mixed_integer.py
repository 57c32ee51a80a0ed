"""Fixed point with a width per channel or element."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from chop.formats.integer import Integer
from chop.formats.kernels.run import settings
from chop.formats.mixed_integer import MixedInteger

X = torch.tensor([[0.30, -9.0, 5.0, 0.7], [-0.30, 9.0, -5.0, 0.2]])


def test_each_element_is_rounded_to_its_own_width() -> None:
    # Steps 1/16, 1/2, 1 and 1/4; limits -8..7.9375, -4..3.5, 0 bits, and -1..0.75 (3 bits).
    mixed = MixedInteger((8, 4, 0, 3), (4, 1, 0, 2), shape=(4,))
    assert mixed.quantize(X).tolist() == [[0.3125, -4.0, 0.0, 0.75], [-0.3125, 3.5, 0.0, 0.25]]
    codes, scale = mixed.integers(X)
    assert codes.tolist() == [[5, -8, 0, 3], [-5, 7, 0, 1]]
    assert scale.tolist() == [0.0625, 0.5, 1.0, 0.25]


def test_channels_share_a_width() -> None:
    mixed = MixedInteger((8, 2), (4, 0), shape=(2, 1))
    assert mixed.quantize(X)[0].equal(Integer(8, 4).quantize(X[0]))
    assert mixed.quantize(X)[1].equal(Integer(2, 0).quantize(X[1]))


def test_unsigned_numbers_start_at_zero() -> None:
    mixed = MixedInteger((2, 0), (1, 3), shape=(2,), is_signed=False)
    assert mixed.quantize(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 0.0]
    assert mixed.quantize(torch.tensor([9.0, -1.0])).tolist() == [1.5, 0.0]


def test_bits_are_counted_element_by_element() -> None:
    mixed = MixedInteger((8, 4, 0, 3), (4, 1, 0, 2), shape=(4,))
    assert (mixed.width, mixed.bits, mixed.storage_bits((10, 4))) == (8, 3.75, 150)
    assert str(mixed) == "mixed_integer(0 to 8 bits, mean 3.75)"


@pytest.mark.parametrize(("is_signed", "width"), [(False, 8), (True, 0), (True, 1)])
def test_zeros_keep_their_sign_at_every_position(is_signed: bool, width: int) -> None:
    # 17 columns: some are computed by vector instructions, and some are left over.
    mixed = MixedInteger((width,) * 17, (4,) * 17, shape=(17,), is_signed=is_signed)
    for enabled in (False, True):
        with patch.object(settings, "enabled", enabled), patch.object(settings, "min_numel_to_load", 0):
            assert mixed.quantize(torch.full((6, 17), -0.01)).signbit().all()
            assert not mixed.quantize(torch.full((6, 17), 0.01)).signbit().any()


def test_of_takes_tensors() -> None:
    made = MixedInteger.of(torch.tensor([[8.0], [4.0]]), torch.tensor([[4.0], [1.0]]), is_signed=False)
    assert made == MixedInteger((8, 4), (4, 1), shape=(2, 1), is_signed=False)


def test_wrong_shapes_are_explained() -> None:
    with pytest.raises(ValueError, match=r"shape \[2, 2\] needs 4 numbers in 'widths', got 1"):
        MixedInteger((8,), (4, 4, 4, 4), shape=(2, 2))
    with pytest.raises(ValueError, match=r"shape \[3\] does not fit a tensor of \[2, 4\]"):
        MixedInteger((8,) * 3, (4,) * 3, shape=(3,)).quantize(X)
    with pytest.raises(ValueError, match="each of 'widths' must be from 0 to 24, got -1"):
        MixedInteger((-1,), (4,))
