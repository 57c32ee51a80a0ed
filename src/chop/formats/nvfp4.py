"""NVIDIA's 4-bit float."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.kernels.families import Scale, largest_magnitude
from chop.formats.kernels.loops.parameters import ScaleParameters
from chop.formats.parts.base import Encoded, Scales, param, register_format
from chop.formats.parts.bits import working
from chop.formats.parts.blocks import Blocks, BlockSize
from chop.formats.parts.granularity import scale_covering, scale_limits
from chop.formats.parts.grid import ELEMENTS, Grid
from chop.formats.parts.rounding import round_quotients
from chop.formats.parts.scaled_blocks import ScaledBlocks

_ELEMENT, _SCALE = ELEMENTS["e2m1"], ELEMENTS["e4m3"]
_LARGEST = _ELEMENT.largest * _SCALE.largest


@register_format("nvfp4")
@dataclass(frozen=True)
class NVFP4(ScaledBlocks):
    """NVFP4: E2M1 elements, an E4M3 scale per block and a float32 scale per tensor."""

    floating_point = True

    block_size: BlockSize = param(16, help="elements per block, or the shape of a tile", kw_only=True)

    def __post_init__(self) -> None:
        self.check_blocks()

    @property
    def width(self) -> int:
        return 4

    @property
    def scale_width(self) -> int:
        return 8  # the scale of the tensor comes on top

    @property
    def is_idempotent(self) -> bool:
        return False  # E4M3 scales of very small blocks are so coarse that another one may fit the rounded block

    @property
    def requantize_tolerance(self) -> float:
        return 2**-21  # the scale of the tensor is computed from its maximum

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return False  # all rows share the scale of the tensor

    @property
    def grid(self) -> Grid:
        return _ELEMENT

    def scale(self, largest: Tensor) -> Tensor:
        tensor_scale = _tensor_scale(largest)
        return _block_scale(largest, tensor_scale, _ELEMENT.largest) * tensor_scale

    def scale_in_loop(self, x: Tensor) -> Scale | None:
        largest = largest_magnitude(x) if self.rounding in ("nearest_even", "nearest_away") else None
        if largest is None:
            return None
        low, high = scale_limits(_LARGEST)
        return Scale(
            "tensor",
            ScaleParameters(low, high, top=_ELEMENT.largest, tensor_largest=largest, tensor_top=_LARGEST),
        )

    def possible_scales(self, largest: Tensor) -> tuple[Tensor, ...]:
        # The maximum of a block is not always 6 times its scale: small scales are rounded by up to a half.
        tensor_scale = _tensor_scale(largest)
        elements = _ELEMENT.decode(torch.arange(1, 8)).tolist()
        return tuple(_block_scale(largest, tensor_scale, each) * tensor_scale for each in reversed(elements))

    def quotients(self, values: Tensor, scale: Tensor) -> Tensor:
        # The values of a block that is so small that its scale is rounded to 0 become 0 by their scale.
        return values.div(scale.clamp(min=2.0**-149))

    def elements(self, quotients: Tensor) -> Tensor:
        return round_quotients(quotients, self.rounding, self.grid.round_)

    def encode(self, x: Tensor) -> Encoded:
        codes, (combined,) = super().encode(x)
        if x.numel() == 0:
            return codes, (combined, combined.new_ones(()))
        largest = Blocks.of(working(x), self.block_size, self.block_dim).largest()
        tensor_scale = _tensor_scale(largest)
        return codes, (_block_scale(largest, tensor_scale, _ELEMENT.largest), tensor_scale)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return super().decode(codes, (scales[0] * scales[1],) if scales else ())


def _tensor_scale(largest: Tensor) -> Tensor:
    return scale_covering(largest.amax(), _LARGEST)


def _block_scale(largest: Tensor, tensor_scale: Tensor, element: float) -> Tensor:
    """Return the E4M3 scales of blocks whose maxima are to become `element`."""
    return _SCALE.round(largest.div(element).div_(tensor_scale))
