"""The numbers that formats can represent."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from chop.formats import FORMATS, Format
from chop.formats.integer import Integer
from chop.page.representable_values import MAX_VALUES_DRAWN, representable_values


@pytest.mark.parametrize("name", FORMATS)
def test_every_number_of_a_rounded_tensor_is_representable_values(name: str) -> None:
    number_format = FORMATS[name]().for_operand(-1, 0)
    x = torch.randn(2, 24)
    found = representable_values(number_format, [x], None)
    y = number_format(x).double()
    assert found.low <= y.min() <= y.max() <= found.high
    if found.values is not None and found.num_scales == 1:
        assert all(((found.values - each).abs() <= 1e-6 * each.abs()).any() for each in y.flatten())


def test_only_some_of_many_values_are_drawn() -> None:
    found = representable_values(Integer(16, 8), [torch.randn(8)], None)
    drawn, stride = found.between(-100.0, 100.0)
    assert (len(drawn), stride) == (MAX_VALUES_DRAWN, 2**16 // MAX_VALUES_DRAWN)
    assert drawn[:2] == [-128.0, -127.0]
    assert found.between(0.0, 0.0625) == ([i / 256 for i in range(-24, 41)], 1)  # 1.5 times as far to both sides


def test_a_given_scale_multiplies_all_values() -> None:
    number_format = Integer(4, scale="float")
    found = representable_values(number_format, [torch.randn(8)], torch.tensor(0.5))
    assert found.values is not None
    assert found.values.tolist() == [0.5 * i for i in range(-8, 8)]


def test_a_format_without_codes_has_only_limits() -> None:
    class Halves(Format):
        name = "halves"
        width = 8

        def quantize(self, x: Tensor) -> Tensor:
            return (x * 2).round().clamp(-4, 4) / 2

    found = representable_values(Halves(), [torch.randn(8)], None)
    assert (found.low, found.high, found.step, found.values) == (-2.0, 2.0, None, None)


@pytest.mark.parametrize("name", ["integer", "fp8"])
def test_chunks_with_their_own_scales_give_the_same_as_the_whole_tensor(name: str) -> None:
    number_format = FORMATS[name](scale="float", granularity="channel", channel_dim=0)  # type: ignore[call-arg]
    x = torch.randn(6, 5)
    assert number_format.rounds_rows_independently(x)
    assert torch.equal(number_format.quantize(x), torch.cat([number_format.quantize(row) for row in x.split(2)]))
    whole, parts = (representable_values(number_format, chunks, None) for chunks in ([x], x.split(2)))
    assert (parts.low, parts.high, parts.step, parts.num_scales) == (whole.low, whole.high, whole.step, 6)
