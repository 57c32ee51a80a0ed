"""Three values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.kernels.families import round_to_signs
from chop.formats.parts.base import Encoded, Format, Scales, param, register_format
from chop.formats.parts.bits import (
    finite_magnitude,
    mean_of_numbers,
    refuse_nan,
    refuse_other_numbers,
    sum_of_magnitudes,
    with_nan_of,
    working,
)


@register_format("ternary")
@dataclass(frozen=True)
class Ternary(Format):
    """-s, 0 or +s (Ternary Weight Networks): small values become 0, and s is the mean magnitude of the others."""

    is_symmetric = True

    scaling: bool = param(True, help="whether s follows the data; False: s = 1")
    threshold: float = param(
        0.7, search=(0.5, 0.7, 1.0), help="values up to this fraction of the mean magnitude become 0"
    )

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"threshold must be at least 0, got {self.threshold}")

    @property
    def width(self) -> int:
        return 2

    @property
    def values_depend_on_data(self) -> bool:
        return True

    @property
    def requantize_tolerance(self) -> float:
        return 2**-20  # s is a mean of the data

    def quantize(self, x: Tensor) -> Tensor:
        fast = round_to_signs(x, self.scaling, self.threshold)
        if fast is not None:
            return fast
        values = working(x)
        signs, scale = self._signs_and_scale(values)
        return with_nan_of(signs.mul_(scale), values).to(x.dtype)

    def scale_groups(self, x: Tensor) -> Tensor | None:
        return torch.zeros(x.shape, dtype=torch.int64, device=x.device)

    def element_scales(self, x: Tensor) -> Tensor:
        return self._signs_and_scale(working(x))[1].expand(x.shape)

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        return working(x).div(scales).round_().clamp_(-1, 1).mul_(scales).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes, (scale,) = self.encode(x)
        return codes, scale

    def encode(self, x: Tensor) -> Encoded:
        values = working(x)
        refuse_nan(values)
        signs, scale = self._signs_and_scale(values)
        return signs.long(), (scale,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return codes * (scales[0] if scales else torch.tensor(1.0))

    def all_codes(self) -> Tensor:
        return torch.tensor([-1, 0, 1])

    def contains(self, x: Tensor) -> Tensor:
        refuse_other_numbers(x.dtype)
        magnitude = x.abs()
        if not self.scaling or magnitude.numel() == 0:
            return (magnitude == 0) | (magnitude == 1)
        return (magnitude == 0) | (magnitude == magnitude.where(magnitude.isfinite(), 0.0).amax())

    def _signs_and_scale(self, x: Tensor) -> tuple[Tensor, Tensor]:
        magnitude = finite_magnitude(x)
        limit = mean_of_numbers(magnitude, x, tuple(range(x.dim()))).mul(self.threshold).to(x.dtype)
        kept = magnitude.sub(limit).sign_().clamp_(min=0)  # 1 above the limit; comparisons are slower
        signs = x.sign().mul_(kept).nan_to_num_(nan=0.0)
        if not self.scaling:
            return signs, torch.ones((), dtype=x.dtype, device=x.device)
        total = sum_of_magnitudes(magnitude.mul_(kept), tuple(range(x.dim()))).reshape(())
        return signs, (total / kept.sum(dtype=torch.float64).clamp(min=1)).to(x.dtype)
