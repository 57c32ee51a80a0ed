"""The windows of convolutions and pooling layers, as numbers of elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chop.hardware.program.instructions import PADDING, WindowShape
from chop.hardware.program.signal import IntArray
from chop.ir import NodeMeta


@dataclass(frozen=True, eq=False)
class Windows:
    """Which elements of an image [channels, *size] each window holds."""

    channels: int
    shape: WindowShape
    reads: IntArray
    """[positions, elements of the kernel] for one channel; `PADDING` outside the image"""
    counts_padding: bool = True
    fixed_divisor: int | None = None

    @classmethod
    def make(
        cls,
        shape: tuple[int, ...],
        kernel: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        **others: Any,
    ) -> Windows:
        """Return the windows of a kernel that moves over an image."""
        size = shape[1:]
        output = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
        )
        inside = np.zeros((int(np.prod(output)), int(np.prod(kernel))), dtype=np.int64)
        outside = np.zeros_like(inside, dtype=bool)
        starts = np.stack(np.meshgrid(*map(np.arange, output), indexing="ij"), axis=-1).reshape(-1, len(size))
        taps = np.stack(np.meshgrid(*map(np.arange, kernel), indexing="ij"), axis=-1).reshape(-1, len(size))
        for axis, n in enumerate(size):
            at = starts[:, None, axis] * stride[axis] + taps[None, :, axis] * dilation[axis] - padding[axis]
            outside |= (at < 0) | (at >= n)
            inside = inside * n + at
        window = WindowShape(tuple(size), output, kernel, stride, padding, dilation)
        return cls(shape[0], window, np.where(outside, PADDING, inside), **others)

    @property
    def output_size(self) -> tuple[int, ...]:
        return self.shape.output_size

    @classmethod
    def of_convolution(cls, layer: Any, shape: tuple[int, ...], node: str) -> Windows:
        """Return the windows of a convolution."""
        if layer.padding_mode != "zeros" or isinstance(layer.padding, str):
            raise ValueError(f"node '{node}': hardware supports padding with zeros, given as numbers, only")
        return cls.make(shape, layer.kernel_size, layer.stride, layer.padding, layer.dilation)

    @classmethod
    def of_pool(cls, meta: NodeMeta, shape: tuple[int, ...]) -> Windows:
        """Return the windows of a pooling layer."""
        layer: Any = meta.module
        if layer is None:
            raise ValueError(f"node '{meta.node.name}' calls a function; hardware supports pooling layers only")
        dims = len(shape) - 1
        if getattr(layer, "ceil_mode", False):
            raise ValueError(f"node '{meta.node.name}': hardware does not support ceil_mode")
        if hasattr(layer, "output_size"):
            return cls._of_adaptive_pool(meta, shape)
        kernel = _tuple(layer.kernel_size, dims)
        stride = _tuple(layer.stride if layer.stride is not None else kernel, dims)
        dilation = _tuple(getattr(layer, "dilation", 1), dims)
        return cls.make(
            shape, kernel, stride, _tuple(layer.padding, dims), dilation,
            counts_padding=getattr(layer, "count_include_pad", True),
            fixed_divisor=getattr(layer, "divisor_override", None),
        )  # fmt: skip

    @classmethod
    def _of_adaptive_pool(cls, meta: NodeMeta, shape: tuple[int, ...]) -> Windows:
        output = tuple(meta.results["data_out_0"].shape[2:])
        if any(n % m for n, m in zip(shape[1:], output, strict=True)):
            raise ValueError(
                f"node '{meta.node.name}': for adaptive pooling in hardware the input's size {shape[1:]} must "
                f"be a multiple of the output's {output}"
            )
        kernel = tuple(n // m for n, m in zip(shape[1:], output, strict=True))
        ones = (1,) * len(kernel)
        return cls.make(shape, kernel, kernel, (0,) * len(kernel), ones)

    def reads_of_group(self, group: int, groups: int) -> IntArray:
        """Return [positions, elements] of the channels of one group, in the order of a weight."""
        per_group = self.channels // groups
        pixels = int(np.prod(self.shape.size))
        parts = [
            np.where(self.reads == PADDING, PADDING, self.reads + channel * pixels)
            for channel in range(group * per_group, (group + 1) * per_group)
        ]
        return np.concatenate(parts, axis=1)

    def writes(self, channels: slice) -> IntArray:
        """Return [positions, channels]: the numbers of the results."""
        positions = int(np.prod(self.output_size))
        first: IntArray = np.arange(channels.start, channels.stop) * positions
        return first + np.arange(positions)[:, None]

    def without_padding(self, node: str) -> IntArray:
        """Return [results, elements] of all channels; padding is replaced by another element of its window."""
        first = self.reads.max(axis=1, keepdims=True)
        if (first == PADDING).any():
            raise ValueError(f"node '{node}': a window with nothing but padding has no maximum")
        reads = np.where(self.reads == PADDING, first, self.reads)
        pixels = int(np.prod(self.shape.size))
        return np.concatenate([reads + channel * pixels for channel in range(self.channels)])

    def divisor(self, node: str) -> int:
        """Return the number that a mean divides by, which must be the same for all windows."""
        if self.fixed_divisor is not None:
            return self.fixed_divisor
        if not self.counts_padding and (self.reads == PADDING).any():
            raise ValueError(f"node '{node}': hardware needs count_include_pad = True for a mean with padding")
        return int(self.reads.shape[1])


def _tuple(value: int | tuple[int, ...], dims: int) -> tuple[int, ...]:
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * dims if len(given) == 1 else given
