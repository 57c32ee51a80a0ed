"""`minifloat_ieee` compared with values computed by hand from its definition."""

from __future__ import annotations

import torch

from chop.formats.minifloat import MinifloatIEEE


def test_minifloat_has_every_code_as_a_number() -> None:
    e4m3 = MinifloatIEEE(width=8, exponent_width=4)
    x = torch.tensor([480.0, 1e9, 2.0**-9, 2.0**-10, 2.0**-10 * 1.01, 17.0, 19.0, 496.0])
    assert e4m3.quantize(x).tolist() == [480.0, 480.0, 2.0**-9, 0.0, 2.0**-9, 16.0, 20.0, 480.0]


def test_minifloat_without_mantissa_is_powers_of_two() -> None:
    # E3M0, bias 3: code 0 is zero, then 2**-2 .. 2**4
    y = MinifloatIEEE(width=4, exponent_width=3).quantize(torch.tensor([0.1, 0.13, 3.1, 6.1, 100.0]))
    assert y.tolist() == [0.0, 0.25, 4.0, 8.0, 16.0]


def test_minifloat_without_mantissa_takes_the_even_code_at_a_tie() -> None:
    # codes: 0.25 is 1, 0.5 is 2, 1 is 3, 2 is 4
    y = MinifloatIEEE(width=4, exponent_width=3).quantize(torch.tensor([0.125, 0.375, 0.75, 1.5, -1.5]))
    assert y.tolist() == [0.0, 0.5, 0.5, 2.0, -2.0]
