"""NVIDIA's 4-bit float."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, param, register_format
from chop.formats.bits import finite_magnitude, working
from chop.formats.blocks import BlockSize, InBlocks, shared_bits
from chop.formats.elements import ELEMENTS
from chop.formats.rounding import Rounded

_ELEMENT, _SCALE = ELEMENTS["e2m1"], ELEMENTS["e4m3"]
_SMALLEST = 2.0**-149


@register_format("nvfp4")
@dataclass(frozen=True)
class NVFP4(InBlocks, Rounded, Format):
    """NVFP4: E2M1 elements, an E4M3 scale per block and a float32 scale per tensor."""

    floating_point = True
    is_symmetric = True
    requantize_tolerance = 2**-22  # the scale of the tensor is computed from its maximum

    block_size: BlockSize = param(16, help="elements per block, or the shape of a tile", kw_only=True)

    def __post_init__(self) -> None:
        self.check_blocks()

    @property
    def width(self) -> int:
        return 4

    @property
    def bits(self) -> float:
        return self.width + shared_bits(8, self.block_size)

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return False  # all rows share the scale of the tensor

    def quantize(self, x: Tensor) -> Tensor:
        tensor_scale = self._tensor_scale(x)

        def rounded(values: Tensor, largest: Tensor) -> Tensor:
            scale = self._block_scale(largest, tensor_scale) * tensor_scale
            return self._elements(values, scale).mul_(scale)

        return self.by_blocks(x, rounded)

    def encode(self, x: Tensor) -> Encoded:
        tensor_scale = self._tensor_scale(x)
        codes, scales = self.encode_by_blocks(
            x,
            lambda largest: self._block_scale(largest, tensor_scale),
            lambda values, scale: _ELEMENT.encode(self._elements(values, scale * tensor_scale)),
        )
        return codes, (*scales, tensor_scale)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        combined = (scales[0] * scales[1],) if scales else ()
        return self.decode_by_blocks(codes, combined, _ELEMENT.decode)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands, and for each the scale that is its unit."""
        tensor_scale = self._tensor_scale(x)

        def parts(values: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
            scale = self._block_scale(largest, tensor_scale) * tensor_scale
            significands, step = _ELEMENT.integers(self._elements(values, scale))
            return significands.to(values.dtype), step * scale

        return self.by_blocks(x, lambda v, m: parts(v, m)[0]).long(), self.by_blocks(x, lambda v, m: parts(v, m)[1])

    def all_codes(self) -> Tensor:
        return _ELEMENT.all_codes()

    def contains(self, x: Tensor) -> Tensor:
        """Return where `x` is representable; within an ulp, because the tensor's scale is computed from `x`."""
        again = self.quantize(x)
        return (again - x).abs() <= x.abs() * 2 * torch.finfo(torch.float32).eps

    def _tensor_scale(self, x: Tensor) -> Tensor:
        if x.numel() == 0:
            return torch.ones((), dtype=working(x).dtype, device=x.device)
        largest = finite_magnitude(working(x)).amax()
        return largest.div(_ELEMENT.largest * _SCALE.largest).clamp(min=_SMALLEST)

    def _block_scale(self, largest: Tensor, tensor_scale: Tensor) -> Tensor:
        return _SCALE.round(largest.div(_ELEMENT.largest).div_(tensor_scale))

    def _elements(self, values: Tensor, scale: Tensor) -> Tensor:
        # All elements are 0 in a block that is so small that its scale is rounded to 0.
        return _ELEMENT.round_(values.div(scale.clamp(min=_SMALLEST)), self.rounding)
