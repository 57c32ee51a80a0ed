"""Tensors cut into blocks that share something: an exponent, a bias, a scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

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

    def maximum(self, magnitude: Tensor) -> Tensor:
        """The largest `magnitude` of each block, ready to broadcast against `values`."""
        return magnitude.amax(self.dims, keepdim=True)

    def join(self, values: Tensor, like: Tensor) -> Tensor:
        """Put blocks together again, in the shape and dtype of the tensor that was cut."""
        whole = values.reshape(self.padded)
        for dim, n in enumerate(self.shape):
            whole = whole.narrow(dim, 0, n)
        return whole.reshape(like.shape).to(like.dtype)


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


def shared_bits(width: int, block_size: BlockSize) -> float:
    """What `width` bits that a whole block shares add to each of its elements."""
    count = block_size if isinstance(block_size, int) else _product(block_size)
    return width / count


def check_block_size(block_size: BlockSize) -> None:
    sizes = (block_size,) if isinstance(block_size, int) else block_size
    if not sizes or min(sizes) < 1:
        raise ValueError(f"block_size must be a positive integer or a list of them, got {block_size}")


def _product(sizes: tuple[int, ...]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
