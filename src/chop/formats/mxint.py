"""Microscaling integers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.blocks import shared_bits
from chop.formats.microscaling import SCALE_WIDTH, Microscaled, block_scale
from chop.formats.rounding import round_


@register_format("mxint")
@dataclass(frozen=True)
class MXInt(Microscaled, Format):
    """OCP MXINT: integers divided by 2**(width - 2), with a power-of-two scale per block."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 22)
        self.check_blocks()

    @property
    def bits(self) -> float:
        return self.width + shared_bits(SCALE_WIDTH, self.block_size)

    def quantize(self, x: Tensor) -> Tensor:
        def rounded(values: Tensor, largest: Tensor) -> Tensor:
            step = self._step(largest)
            return self._integers(values, step).mul_(step)

        return self.by_blocks(x, rounded)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        step = self.by_blocks(x, lambda values, largest: self._step(largest).expand_as(values))
        return self.by_blocks(x, lambda v, largest: self._integers(v, self._step(largest))).long(), step

    def encode(self, x: Tensor) -> Encoded:
        codes, steps = self.encode_by_blocks(x, self._step, self._integers)
        return codes, tuple(step * 2.0 ** (self.width - 2) for step in steps)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.decode_by_blocks(codes, scales, lambda c: c * 2.0 ** (2 - self.width))

    def all_codes(self) -> Tensor:
        return torch.arange(-self._limit, self._limit + 1)

    def _step(self, largest: Tensor) -> Tensor:
        unit = 2.0 ** (2 - self.width)
        return block_scale(largest, self.scale_rule, self._limit * unit, self.width - 2).mul_(unit)

    def _integers(self, values: Tensor, step: Tensor) -> Tensor:
        return round_(values.div(step), self.rounding).clamp_(-self._limit, self._limit)

    @property
    def _limit(self) -> int:
        return int(2 ** (self.width - 1)) - 1
