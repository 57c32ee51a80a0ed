"""Tensors cut into blocks that share something: an exponent, a bias, a scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.formats.base import Encoded, Scales, param
from chop.formats.bits import finite_magnitude, working

BlockSize = int | tuple[int, ...]


@dataclass(frozen=True)
class Blocks:
    """A tensor seen as blocks: `values` has an extra dimension for each one that is cut, listed in `dims`."""

    values: Tensor
    dims: tuple[int, ...]
    shape: tuple[int, ...]
    padded: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor, block_size: BlockSize, block_dim: int | None) -> Blocks:
        """Cut `x` along `block_dim` (an integer size), or into tiles over its last dimensions (a tuple).

        Where a dimension is no multiple of the block, zeros fill the last block: they change no maximum.
        """
        if x.dim() == 0:
            x = x.reshape(1)
        sizes = _sizes(x, block_size, block_dim)
        padded = tuple(-(-n // sizes[d]) * sizes[d] if d in sizes else n for d, n in enumerate(x.shape))
        shape = tuple(x.shape)
        if padded != shape:
            x = F.pad(x, [p for n, m in zip(reversed(shape), reversed(padded), strict=True) for p in (0, m - n)])
        for dim in sorted(sizes, reverse=True):
            x = torch.unflatten(x, dim, (-1, sizes[dim]))
        dims = tuple(dim + cut + 1 for cut, dim in enumerate(sorted(sizes)))
        return cls(x, dims, shape, padded)

    def largest(self) -> Tensor:
        """The largest magnitude of each block, ready to broadcast against `values`."""
        magnitude = finite_magnitude(self.values)
        if self.dims == (magnitude.dim() - 1,):
            # torch reduces fewer than 32 neighbours very slowly; halving them is twice as fast.
            while magnitude.shape[-1] in (2, 4, 8, 16):
                half = magnitude.shape[-1] // 2
                magnitude = torch.maximum(magnitude[..., :half], magnitude[..., half:])
        return magnitude.amax(self.dims, keepdim=True)

    def join(self, values: Tensor, like: Tensor) -> Tensor:
        """Put blocks together again, in the shape and dtype of the tensor that was cut."""
        whole = values.reshape(self.padded)
        for dim, n in enumerate(self.shape):
            whole = whole.narrow(dim, 0, n)
        whole = whole.reshape(like.shape).to(like.dtype)
        # A view of what nobody else holds: autograd must not take it for one, or in-place ops on it fail.
        return cast(Tensor, torch.ops.aten._unsafe_view(whole, whole.shape))


def _sizes(x: Tensor, block_size: BlockSize, block_dim: int | None) -> dict[int, int]:
    """The extent of a block in each dimension that is cut; never longer than the dimension."""
    if isinstance(block_size, int):
        dim = -1 if block_dim is None else block_dim
        # A vector has one dimension only, whichever the operand's usual one is.
        wanted = {dim % x.dim() if -x.dim() <= dim < x.dim() else x.dim() - 1: block_size}
    else:
        tile = block_size[-x.dim() :]
        wanted = dict(enumerate(tile, start=x.dim() - len(tile)))
    return {dim: min(size, x.shape[dim]) for dim, size in wanted.items()}


@dataclass(frozen=True, kw_only=True)
class InBlocks:
    """A format with blocks: their shape, and how to go through them."""

    block_size: BlockSize = param(32, help="elements a block, or the shape of a tile", kw_only=True)
    block_dim: int | None = param(
        None, place="reduce_dim", help="blocks run along it; None: the operand's", kw_only=True
    )

    def rounds_rows_apart(self, x: Tensor) -> bool:
        return x.dim() > 0 and 0 not in _sizes(x, self.block_size, self.block_dim)

    def check_blocks(self) -> None:
        sizes = (self.block_size,) if isinstance(self.block_size, int) else self.block_size
        if not sizes or min(sizes) < 1:
            raise ValueError(f"block_size must be a positive integer or a list of them, got {self.block_size}")

    def by_blocks(self, x: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """`change(values, largest)` of all blocks; `largest` is each block's largest magnitude."""
        if x.numel() == 0:
            return x.clone()
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        return blocks.join(change(blocks.values, blocks.largest()), like=x)

    def encode_by_blocks(
        self, x: Tensor, scale: Callable[[Tensor], Tensor], codes: Callable[[Tensor, Tensor], Tensor]
    ) -> Encoded:
        """The codes of `x` in its own shape, and the scale of each block."""
        if x.numel() == 0:
            return x.long(), (torch.ones_like(x),)
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        scales = scale(blocks.largest())
        found = codes(blocks.values, scales)
        return blocks.join(found, like=x.new_empty(x.shape, dtype=torch.int64)), (scales,)

    def decode_by_blocks(self, codes: Tensor, scales: Scales, values: Callable[[Tensor], Tensor]) -> Tensor:
        """Numbers from codes; without scales, every block has 1."""
        numbers = values(codes)
        if not scales or codes.numel() == 0:
            return numbers
        blocks = Blocks.of(numbers, self.block_size, self.block_dim)
        return blocks.join(blocks.values * scales[0], like=numbers)


def shared_bits(width: int, block_size: BlockSize) -> float:
    """What `width` bits that a whole block shares add to each of its elements."""
    return width / math.prod((block_size,) if isinstance(block_size, int) else block_size)
