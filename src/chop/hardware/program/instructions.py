"""The instructions of an integer program: each computes one tensor of integers from others, exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.hardware.program.signal import MAX_WIDTH, ExactRounding, IntArray, Signal, shift_right

Rows = NDArray[Any]  # int32 or int64, which mypy cannot tell apart
"""Integers of shape [rows, elements]: tensors are flat inside a program."""
PADDING = -1
"""The index of an element that is always 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction(ABC):
    """A step of a program. `name` is unique; `node` is the graph's node that it belongs to."""

    name: str
    node: str
    reads: tuple[str, ...]
    """The names of the instructions whose results it takes; their elements are numbered one after the other."""
    out: Signal

    def __post_init__(self) -> None:
        if self.out.largest >= 2 ** (MAX_WIDTH - 1):
            raise ValueError(
                f"node '{self.node}': its results need {self.out.width} bits, at most {MAX_WIDTH} are supported; "
                "use narrower formats"
            )

    @property
    def bound(self) -> int:
        """The largest magnitude of any intermediate result, for any order of additions."""
        return self.out.largest

    @abstractmethod
    def run(self, x: Rows) -> Rows:
        """Return the result for rows of all elements that are read."""


@dataclass(frozen=True, eq=False, kw_only=True)
class InputPort(Instruction):
    """The integers that enter the program."""

    rounding: ExactRounding
    """How real numbers are rounded before they enter."""

    def run(self, x: Rows) -> Rows:
        return x


@dataclass(frozen=True)
class WindowShape:
    """How a kernel moves over an image; one number per dimension."""

    size: tuple[int, ...]
    """The image without channels."""
    output_size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """One matrix applied at one or more positions: `y[writes[p]] = matrix @ x[reads[p]] + bias`."""

    matrix: IntArray
    """[outputs, inputs]"""
    bias: IntArray
    reads: IntArray
    """[positions, inputs], or `PADDING`"""
    writes: IntArray
    """[positions, outputs]"""


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearMap(Instruction):
    """Sums of products with constants: linear layers, convolutions, per-channel scales, sums of tensors."""

    blocks: tuple[Block, ...]
    partial_bound: int
    """The largest magnitude of a partial sum: sum |weight| * max |x| + |bias|."""
    kind: str = "linear"
    window: WindowShape | None = None
    """For convolutions and sums over windows; the inputs of a block are in the order channel, row, column."""

    @property
    def bound(self) -> int:
        return max(self.partial_bound, self.out.largest)

    @property
    def is_diagonal(self) -> bool:
        """Whether each result depends on a single element."""
        return all(block.matrix.shape == (1, 1) for block in self.blocks)

    @cached_property
    def _diagonal(self) -> tuple[IntArray, IntArray, IntArray]:
        source, scale, shift = (np.zeros(self.out.numel, dtype=np.int64) for _ in range(3))
        for block in self.blocks:
            at = block.writes[:, 0]
            source[at], shift[at] = block.reads[:, 0], block.bias[0]
            scale[at] = np.where(block.reads[:, 0] == PADDING, 0, block.matrix[0, 0])
        return source, scale, shift

    def run(self, x: Rows) -> Rows:
        if self.is_diagonal:
            source, scale, shift = self._diagonal
            scaled: Rows = x[:, source] * scale.astype(x.dtype) + shift.astype(x.dtype)
            return scaled
        # Floating-point matrix products are much faster, and exact as long as the integers fit the mantissa.
        dtype = np.float32 if self.bound <= 2**24 else np.float64 if self.bound <= 2**53 else np.int64
        padded = np.concatenate([x, np.zeros_like(x[:, :1])], axis=1)  # PADDING is its last element
        y = np.empty((len(x), self.out.numel), dtype=x.dtype)
        for block in self.blocks:
            with np.errstate(invalid="ignore"):  # some BLAS libraries set the flag for finite operands
                product = padded[:, block.reads].astype(dtype) @ block.matrix.T.astype(dtype)
            y[:, block.writes] = product.astype(x.dtype) + block.bias.astype(x.dtype)
        return y


@dataclass(frozen=True, eq=False, kw_only=True)
class Requantize(Instruction):
    """Shift to other fraction bits, round, then saturate."""

    shift: IntArray
    """By element, flat: the fraction bits of the operand minus those of the result."""
    rounding: ExactRounding
    before: Signal

    @property
    def bound(self) -> int:
        return max(self.before.largest, self.out.largest)

    def run(self, x: Rows) -> Rows:
        low, high = self.out.low.ravel().astype(x.dtype), self.out.high.ravel().astype(x.dtype)
        shifts = np.unique(self.shift)
        if len(shifts) == 1:
            return _requantized(x, int(shifts[0]), self.rounding, low, high)
        y = np.empty_like(x)
        for shift in shifts:
            at = np.flatnonzero(self.shift == shift)
            y[:, at] = _requantized(x[:, at], int(shift), self.rounding, low[at], high[at])
        return y


def _requantized(x: Rows, shift: int, rounding: ExactRounding, low: Rows, high: Rows) -> Rows:
    if shift < 0:  # what would overflow when it is shifted to the left saturates before
        x = np.clip(x, (low >> -shift) - 1, (high >> -shift) + 1)
    clipped: Rows = np.clip(shift_right(x, shift, rounding), low, high)
    return clipped


@dataclass(frozen=True, eq=False, kw_only=True)
class Rectify(Instruction):
    """The larger of each element and 0."""

    def run(self, x: Rows) -> Rows:
        return np.maximum(x, 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowMaximum(Instruction):
    """The largest element of each window."""

    windows: IntArray
    """[results, elements of a window]; an element may occur twice, instead of padding"""
    window: WindowShape | None = None

    def run(self, x: Rows) -> Rows:
        y = x[:, self.windows[:, 0]]
        for column in self.windows.T[1:]:
            y = np.maximum(y, x[:, column])
        return y


@dataclass(frozen=True, eq=False, kw_only=True)
class Rearrange(Instruction):
    """Elements in another order or shape; costs wires only."""

    index: IntArray
    """By result, flat: the number of the element."""

    def run(self, x: Rows) -> Rows:
        return x[:, self.index]


@dataclass(frozen=True, eq=False, kw_only=True)
class Align(Instruction):
    """Elements shifted to the left, so that all have the same fraction bits; costs wires only."""

    shift: IntArray
    """By element, flat; 0 for elements that are always 0."""

    def run(self, x: Rows) -> Rows:
        shifted: Rows = x << self.shift.astype(x.dtype)
        return shifted


@dataclass(frozen=True, eq=False, kw_only=True)
class LookUp(Instruction):
    """A function of single elements, as a table of its results."""

    function: str
    first: int
    """The integer that the first entry belongs to."""
    table: IntArray

    def run(self, x: Rows) -> Rows:
        found: Rows = self.table.astype(x.dtype)[x - self.first]
        return found


SumBlock = tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]
"""(matrix, its fraction bits, bias, its fraction bits, reads, writes)"""


def linear_map(
    node: str,
    reads: tuple[str, ...],
    source: Signal,
    blocks: Sequence[SumBlock],
    shape: tuple[int, ...],
    kind: str,
    window: WindowShape | None = None,
) -> LinearMap:
    """Return the exact sums of `blocks`, under the name of their node.

    Every output has the fraction bits of its finest product or bias. Factors that align them are part of the
    integers of the matrix.
    """
    flat = source.flat()
    frac, low, high = (np.zeros(int(np.prod(shape)), dtype=np.int64) for _ in range(3))
    made, partial = [], 0
    for matrix, matrix_frac, bias, bias_frac, positions, writes in blocks:
        in_frac = _per_input(flat.frac, positions, node)
        product_frac = np.broadcast_to(matrix_frac, matrix.shape) + in_frac
        bias_frac = np.broadcast_to(bias_frac, bias.shape)
        finest = np.maximum(
            np.where(matrix != 0, product_frac, -(2**20)).max(axis=1, initial=-(2**20)),
            np.where(bias != 0, bias_frac, -(2**20)),
        )
        finest = np.where(finest == -(2**20), 0, finest)  # an output that is always 0
        aligned = _scaled(matrix, finest[:, None] - product_frac, node)
        bias = _scaled(bias, finest - bias_frac, node)
        row_low, row_high, row_bound = _bounds(aligned, bias, flat, positions)
        frac[writes], low[writes], high[writes] = finest, row_low, row_high
        partial = max(partial, row_bound)
        made.append(Block(aligned, bias, positions, writes))
    out = Signal(frac.reshape(shape), low.reshape(shape), high.reshape(shape))
    return LinearMap(
        name=node,
        node=node,
        reads=reads,
        out=out,
        blocks=tuple(made),
        partial_bound=partial,
        kind=kind,
        window=window,
    )


def requantize(
    name: str, node: str, read: str, source: Signal, target: Signal, rounding: ExactRounding
) -> Requantize | None:
    """Return the instruction that rounds `source` to the numbers of `target`; None if that changes nothing."""
    shift = source.frac - target.frac
    scale = np.ldexp(1.0, -shift)
    if ((shift <= 0) & (source.low * scale >= target.low) & (source.high * scale <= target.high)).all():
        return None
    # Results beyond these shifts are the same: 0, -1, or saturated.
    shift = np.clip(shift, -(target.width + 1), source.width + 1).ravel()
    # The bounds of `target` that rounded values can reach.
    low = np.maximum(target.low, np.floor(source.low * scale)).astype(np.int64)
    high = np.minimum(target.high, np.ceil(source.high * scale)).astype(np.int64)
    out = Signal(target.frac, np.minimum(low, target.high), np.maximum(high, target.low))
    return Requantize(name=name, node=node, reads=(read,), out=out, shift=shift, rounding=rounding, before=source)


def align(name: str, node: str, read: str, source: Signal) -> Align | None:
    """Return the instruction that gives all elements the most fraction bits of any; None if they have them."""
    used = (source.low != 0) | (source.high != 0)
    finest = int(source.frac[used].max()) if used.any() else int(source.frac.max(initial=0))
    if (source.frac == finest).all():
        return None
    shift = np.where(used, finest - source.frac, 0)
    low, high = (_scaled(each, shift, node) for each in (source.low, source.high))
    out = Signal(np.full_like(source.frac, finest), low, high)
    return Align(name=name, node=node, reads=(read,), out=out, shift=shift.ravel())


def _per_input(frac: IntArray, positions: IntArray, node: str) -> IntArray:
    """Return the fraction bits of each input of a block, which must be the same at every position."""
    found = np.where(positions == PADDING, np.iinfo(np.int64).min, frac[positions])
    largest: IntArray = found.max(axis=0)
    if ((found != largest) & (positions != PADDING)).any():
        raise ValueError(f"node '{node}': the elements of one channel have different fraction bits")
    return np.where(largest == np.iinfo(np.int64).min, 0, largest)


def _scaled(values: IntArray, shift: IntArray, node: str) -> IntArray:
    """Return `values * 2**shift` for shifts of at least 0 where the value is not 0."""
    wide = np.abs(values).astype(np.float64) * np.exp2(np.maximum(shift, 0).astype(np.float64))
    if (wide >= 2.0 ** (MAX_WIDTH - 1)).any():
        raise ValueError(
            f"node '{node}': aligning its integers needs more than {MAX_WIDTH} bits; use closer formats"
        )
    return np.where(values == 0, 0, values << np.clip(shift, 0, MAX_WIDTH))


def _bounds(matrix: IntArray, bias: IntArray, flat: Signal, positions: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return the smallest and largest result by position and output, and the largest magnitude of a partial sum.

    In floating point first: int64 would overflow without notice.
    """
    inside = positions != PADDING
    low, high = np.where(inside, flat.low[positions], 0), np.where(inside, flat.high[positions], 0)
    positive, negative = np.maximum(matrix, 0), np.minimum(matrix, 0)
    magnitude = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(invalid="ignore"):  # some BLAS libraries set the flag for finite operands
        sums = magnitude.astype(np.float64) @ np.abs(matrix).T.astype(np.float64)
    largest = (sums + np.abs(bias)).max(initial=0)
    if largest >= 2.0**MAX_WIDTH:
        return (
            np.full((len(positions), len(matrix)), -(2**MAX_WIDTH)),
            np.full((len(positions), len(matrix)), 2**MAX_WIDTH),
            2**MAX_WIDTH,
        )
    bound = int((magnitude @ np.abs(matrix).T + np.abs(bias)).max(initial=0))
    return low @ positive.T + high @ negative.T + bias, high @ positive.T + low @ negative.T + bias, bound
