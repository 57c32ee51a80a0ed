"""Tensors divided into blocks that share an exponent, a bias or a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.formats.parts.bits import finite_magnitude, in_shape

BlockSize = int | tuple[int, ...]


@dataclass(frozen=True)
class Blocks:
    """A tensor in blocks: [6, 32] in blocks of 16 along dimension 1 has `values` [6, 2, 16] and `dims` (2,)."""

    values: Tensor
    dims: tuple[int, ...]
    shape: tuple[int, ...]
    padded: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor, block_size: BlockSize, block_dim: int | None) -> Blocks:
        """Divide `x` along `block_dim` (an integer size), or into tiles of its last dimensions (a tuple).

        If a dimension is not a multiple of the block, zeros fill the last block; they do not change its maximum.
        """
        if x.dim() == 0:
            x = x.reshape(1)
        sizes = block_sizes(x.shape, block_size, block_dim)
        padded = tuple(-(-n // sizes[d]) * sizes[d] if d in sizes else n for d, n in enumerate(x.shape))
        shape = tuple(x.shape)
        if padded != shape:
            x = F.pad(x, [p for n, m in zip(reversed(shape), reversed(padded), strict=True) for p in (0, m - n)])
        for dim in sorted(sizes, reverse=True):
            x = torch.unflatten(x, dim, (-1, sizes[dim]))
        dims = tuple(dim + cut + 1 for cut, dim in enumerate(sorted(sizes)))
        return cls(x, dims, shape, padded)

    def largest(self) -> Tensor:
        """Return the largest magnitude of each block, in a shape that broadcasts against `values`."""
        magnitude = finite_magnitude(self.values)
        if self.dims == (magnitude.dim() - 1,):
            # torch is slow at reducing fewer than 32 neighbours; halving them repeatedly is twice as fast.
            while magnitude.shape[-1] in (2, 4, 8, 16):
                half = magnitude.shape[-1] // 2
                magnitude = torch.maximum(magnitude[..., :half], magnitude[..., half:])
        return magnitude.amax(self.dims, keepdim=True)

    def join(self, values: Tensor, like: Tensor) -> Tensor:
        """Return the blocks as one tensor, in the shape and dtype of `like`."""
        joined = values.reshape(self.padded)
        for dim, n in enumerate(self.shape):
            joined = joined.narrow(dim, 0, n)
        return in_shape(joined.reshape(like.shape).to(like.dtype), like.shape)


def block_indices(x: Tensor, block_size: BlockSize, block_dim: int | None) -> Tensor:
    """Return for each element of `x` the index of its block."""
    blocks = Blocks.of(torch.zeros(x.shape, dtype=torch.int64, device=x.device), block_size, block_dim)
    first = blocks.values.amax(blocks.dims, keepdim=True)
    numbers = torch.arange(first.numel(), device=x.device).reshape(first.shape)
    return blocks.join(numbers.expand_as(blocks.values), like=numbers.new_empty(x.shape))


def block_sizes(shape: Sequence[int], block_size: BlockSize, block_dim: int | None) -> dict[int, int]:
    """Return the size of a block in each divided dimension, at most the size of the dimension."""
    ndim = len(shape)
    if isinstance(block_size, int):
        wanted = {divided_dim(ndim, block_dim): block_size}
    else:
        tile = block_size[-ndim:]
        wanted = dict(enumerate(tile, start=ndim - len(tile)))
    return {dim: min(size, shape[dim]) for dim, size in wanted.items()}


def divided_dim(ndim: int, block_dim: int | None) -> int:
    """Return the dimension along which blocks run: the last one if it is not given."""
    dim = -1 if block_dim is None else block_dim
    # A vector has one dimension only, whatever the dimension of the operand is.
    return dim % ndim if -ndim <= dim < ndim else ndim - 1


def num_blocks(shape: Sequence[int], block_size: BlockSize, block_dim: int | None) -> int:
    """Return the number of blocks in a tensor: 8 rows of 8 elements in blocks of 32 are 8 blocks."""
    if 0 in shape or not shape:
        return int(not shape)
    sizes = block_sizes(shape, block_size, block_dim)
    return math.prod(-(-n // sizes[d]) if d in sizes else n for d, n in enumerate(shape))


def shared_bits(width: int, block_size: BlockSize) -> float:
    """Return the bits per element that a value of `width` bits per block adds: 8 bits in blocks of 16 add 0.5."""
    return width / math.prod((block_size,) if isinstance(block_size, int) else block_size)
