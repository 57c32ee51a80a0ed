"""Instructions from constants and the signals they read: accumulator widths follow from exact bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chop.hardware.program.instructions import PADDING, Align, Block, LinearMap, Requantize, WindowShape
from chop.hardware.program.rounding import ExactRounding
from chop.hardware.program.signal import MAX_WIDTH, IntArray, Signal


def linear_map(
    name: str,
    node: str,
    reads: tuple[str, ...],
    source: Signal,
    blocks: Sequence[tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]],
    shape: tuple[int, ...],
    kind: str,
    window: WindowShape | None = None,
) -> LinearMap:
    """Return the exact sums of `blocks`: (matrix, its fraction bits, bias, its fraction bits, reads, writes).

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
        name=name,
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
    unchanged = (shift <= 0) & _fits(source, target)
    if unchanged.all():
        return None
    # Results beyond these shifts are the same: 0, -1, or saturated.
    shift = np.clip(shift, -(target.width + 1), source.width + 1).ravel()
    low, high = _range_after(source, target)
    out = Signal(target.frac, low, high)
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


def _range_after(source: Signal, target: Signal) -> tuple[IntArray, IntArray]:
    """Return the bounds of `target` that the rounded values of `source` can reach."""
    scale = np.ldexp(1.0, target.frac - source.frac)
    low = np.maximum(target.low, np.floor(source.low * scale)).astype(np.int64)
    high = np.minimum(target.high, np.ceil(source.high * scale)).astype(np.int64)
    return np.minimum(low, target.high), np.maximum(high, target.low)


def _fits(source: Signal, target: Signal) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    scale = np.ldexp(1.0, target.frac - source.frac)
    fits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = (source.low * scale >= target.low) & (
        source.high * scale <= target.high
    )
    return fits


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
