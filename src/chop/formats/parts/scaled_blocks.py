"""The base class of block formats: elements of one grid times a scale per block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from chop.formats.kernels.families import Element, Scale, round_blocks
from chop.formats.parts.base import Encoded, Format, Scales, param
from chop.formats.parts.bits import is_wide, working
from chop.formats.parts.blocks import (
    Blocks,
    BlockSize,
    block_indices,
    block_sizes,
    divided_dim,
    num_blocks,
    shared_bits,
)
from chop.formats.parts.grid import Grid, IntegerGrid
from chop.formats.parts.rounding import Rounded, without_overflow
from chop.formats.parts.scales import PowerScale


@dataclass(frozen=True, kw_only=True)
class ScaledBlocks(Rounded, Format):
    """A format with blocks of elements, and a scale per block that follows from its largest magnitude."""

    is_symmetric = True

    block_size: BlockSize = param(32, help="elements per block, or the shape of a tile", kw_only=True)
    block_dim: int | None = param(
        None,
        operand_dim="reduce_dim",
        help="dimension along which blocks run; None: the one that the op sums over",
        kw_only=True,
    )

    def check_blocks(self) -> None:
        """Raise an error if the block size is not positive."""
        sizes = (self.block_size,) if isinstance(self.block_size, int) else self.block_size
        if not sizes or min(sizes) < 1:
            raise ValueError(f"block_size must be a positive integer or a list of them, got {self.block_size}")

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return x.dim() > 0 and 0 not in block_sizes(x.shape, self.block_size, self.block_dim)

    @property
    def values_depend_on_data(self) -> bool:
        return True

    @property
    @abstractmethod
    def grid(self) -> Grid | IntegerGrid:
        """The numbers of a block whose scale is 1."""

    @property
    @abstractmethod
    def scale_width(self) -> int:
        """Bits of the scale of a block."""

    @property
    def bits(self) -> float:
        return self.width + shared_bits(self.scale_width, self.block_size)

    def scale_bits(self, shape: Sequence[int]) -> int:
        return num_blocks(shape, self.block_size, self.block_dim) * self.scale_width

    @property
    def block_scale(self) -> PowerScale:
        """How a scale follows from the maximum of a block; a format with another rule defines `scale` instead."""
        raise NotImplementedError

    def scale(self, largest: Tensor) -> Tensor:
        """Return the scales of blocks with these maxima."""
        return self.block_scale.of(largest)

    def possible_scales(self, largest: Tensor) -> tuple[Tensor, ...]:
        """Return the scales that blocks with these maxima may have had when they were rounded."""
        return (self.scale(largest),)

    def quantize(self, x: Tensor) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        fast = self._quantize_by_loop(x)
        if fast is not None:
            return fast
        blocks, elements, scale = self._parts(x)
        return blocks.join(elements.mul_(scale), like=x)

    @cached_property
    def _scale_in_loop(self) -> Scale:
        return self.block_scale.in_loop()

    def scale_in_loop(self, x: Tensor) -> Scale | None:
        """Return how a compiled loop computes the scales of blocks of `x`; None if no loop can."""
        return self._scale_in_loop

    @cached_property
    def _element_in_loop(self) -> Element | None:
        return self.grid.in_loop(self.rounding)

    def _quantize_by_loop(self, x: Tensor) -> Tensor | None:
        if torch.compiler.is_compiling():
            return None  # it does not trace cached properties
        element = self._element_in_loop
        if element is None or isinstance(self.block_size, tuple) or x.dim() == 0:
            return None
        scale = self.scale_in_loop(x)
        dim = divided_dim(x.dim(), self.block_dim)
        return None if scale is None else round_blocks(x, self.block_size, dim, scale, element)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands, and for each the scale that is its unit."""
        if x.numel() == 0:
            return x.long(), torch.ones_like(working(x))
        blocks, elements, scale = self._parts(x)
        significands, unit = self.grid.integers(elements)
        return blocks.join(significands, like=_int64(x)), blocks.join(unit.mul_(scale), like=working(x))

    def encode(self, x: Tensor) -> Encoded:
        if x.numel() == 0:
            return x.long(), (torch.ones_like(working(x)),)
        blocks, elements, scale = self._parts(x)
        return blocks.join(self.grid.encode(elements), like=_int64(x)), (scale,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        if not scales or codes.numel() == 0:
            return self.grid.decode(codes)
        numbers = self.grid.decode(codes, scales[0].dtype)
        blocks = Blocks.of(numbers, self.block_size, self.block_dim)
        return blocks.join(blocks.values * scales[0], like=numbers)

    def all_codes(self) -> Tensor:
        return self.grid.all_codes()

    def contains(self, x: Tensor) -> Tensor:
        """Return where `x` is representable, with the possible scale that fits a whole block if there is one."""
        if x.numel() == 0:
            return x.isfinite()
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        found: Tensor | None = None
        for scale in self.possible_scales(blocks.largest()):
            again = self.grid.round_(self.quotients(blocks.values, scale)).mul_(scale).to(x.dtype)
            fits = self.same(again, blocks.values.to(x.dtype))
            fits_block = (fits | blocks.values.isnan()).all(blocks.dims, keepdim=True)
            found = fits if found is None else torch.where(fits_block, fits, found)
        assert found is not None, "a block has at least one possible scale"
        return blocks.join(found, like=x.isfinite()) & x.isfinite()

    def scale_groups(self, x: Tensor) -> Tensor | None:
        return block_indices(x, self.block_size, self.block_dim)

    def element_scales(self, x: Tensor) -> Tensor:
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        return blocks.join(self.scale(blocks.largest()).expand_as(blocks.values), like=working(x))

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        return self.elements(self.quotients(working(x), scales)).mul_(scales).to(x.dtype)

    def quotients(self, values: Tensor, scale: Tensor) -> Tensor:
        """Return the values of blocks divided by their scales."""
        return values.div(scale)

    def elements(self, quotients: Tensor) -> Tensor:
        """Round quotients to elements."""
        return self.grid.round_(quotients, self.rounding)

    def _parts(self, x: Tensor) -> tuple[Blocks, Tensor, Tensor]:
        """Return the blocks, their elements and their scales; elements times scales are the rounded values."""
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        scale = self.scale(blocks.largest())
        elements = self.elements(self.quotients(blocks.values, scale))
        if not is_wide(x.dtype):
            elements = without_overflow(
                elements,
                x.dtype,
                scale,
                lambda: self.grid.round_(self.quotients(blocks.values, scale), "towards_zero"),
            )
        return blocks, elements, scale


def _int64(x: Tensor) -> Tensor:
    """Return an empty tensor for codes of `x`."""
    return x.new_empty(x.shape, dtype=torch.int64)
