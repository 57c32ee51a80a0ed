"""`integer` compared with values computed by hand from its definition."""

from __future__ import annotations

import pytest
import torch

from chop.formats.integer import Integer

pytestmark = pytest.mark.usefixtures("loops")


@pytest.mark.parametrize(
    ("value", "expected"), [(0.30, 0.3125), (0.03125, 0.0), (0.09375, 0.125), (7.97, 7.9375), (-9.0, -8.0)]
)
def test_integer_rounds_half_to_even_and_saturates(value: float, expected: float) -> None:
    assert Integer(width=8, frac_width=4).quantize(torch.tensor(value)) == expected


@pytest.mark.parametrize(
    ("number_format", "value", "expected"),
    [
        (Integer(4, -2), 5.0, 4.0),  # steps of 4
        (Integer(4, -2), 100.0, 28.0),  # 7 * 4
        (Integer(4, 6), 1.0, 7 / 64),
        (Integer(4, 1, is_signed=False), -1.0, 0.0),
        (Integer(4, 1, is_signed=False), 99.0, 7.5),
        (Integer(1, 0), 5.0, 0.0),  # one bit of two's complement: -1 and 0
        (Integer(1, 0), -5.0, -1.0),
        (Integer(32, 0), 1e30, 2147483520.0),  # the largest float32 below 2**31
        (Integer(32, 0), -1e30, -2147483648.0),
        (Integer(8, None), 1.03, 1.0),  # half of the width are fraction bits
    ],
)
def test_integer_with_other_widths(number_format: Integer, value: float, expected: float) -> None:
    assert number_format.quantize(torch.tensor(value)).item() == expected
    assert number_format.contains(torch.tensor(expected))


def test_integer_contains_only_representable_values() -> None:
    x = torch.tensor([0.25, 0.26, 7.9375, 8.0, -8.0, -8.0625])
    assert Integer(8, 4).contains(x).tolist() == [True, False, True, False, True, False]


def test_integer_gives_its_integers() -> None:
    integers, scale = Integer(8, 4).integers(torch.tensor([0.3, -8.0, 100.0]))
    assert integers.tolist() == [5, -128, 127]
    assert scale == 0.0625
