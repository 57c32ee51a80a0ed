"""What a unit computes for one pixel of its result, so that one circuit serves all pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chop.hardware.program import Signal
from chop.hardware.program.instructions import (
    PADDING,
    Align,
    Block,
    Instruction,
    LinearMap,
    LookUp,
    Rearrange,
    Rectify,
    Requantize,
    WindowMaximum,
    WindowShape,
)
from chop.hardware.rtl.streams import merge_pixels
from chop.hardware.rtl.units import CircuitUnit, Post, shares_limits


@dataclass(frozen=True, eq=False)
class PixelUnit:
    """A unit for one pixel, and the windows that it reads."""

    unit: CircuitUnit
    window: WindowShape | None = None
    """In two dimensions; None if a pixel of the result depends on the same pixel of the operands."""
    fill: tuple[int, ...] = ()
    """By channel: the integer that stands for padding."""


def window_of(unit: CircuitUnit) -> WindowShape | None:
    """Return the window of a convolution or a pooling layer; None for other units."""
    return unit.head.window if isinstance(unit.head, LinearMap | WindowMaximum) else None


def pixel_unit(unit: CircuitUnit) -> PixelUnit:
    """Return what a unit computes for one pixel; an error says why there is no such unit."""
    try:
        return _pixel_unit(unit)
    except ValueError as error:
        raise ValueError(f"node '{unit.node}' cannot be computed pixel by pixel: {error}") from error


def _pixel_unit(unit: CircuitUnit) -> PixelUnit:
    if any(len(signal.shape) < 2 for signal in (*unit.sources, unit.out)):
        raise ValueError("its operands and results must be images")
    sources = tuple(merge_pixels(source) for source in unit.sources)
    shape = window_of(unit)
    if shape is None:
        return PixelUnit(CircuitUnit(_at_a_pixel(unit, sources), _posts(unit.posts), sources))
    window = _in_two_dimensions(shape)
    (source,) = sources
    taps = int(np.prod(window.kernel))
    head: Instruction
    if isinstance(unit.head, LinearMap):
        head, fill = _linear_window(unit.head, taps, int(np.prod(window.size))), np.zeros_like(source.low)
    else:
        assert isinstance(unit.head, WindowMaximum), "the only other unit with windows"
        windows = np.arange(source.numel * taps).reshape(source.numel, taps)
        head, fill = replace(unit.head, out=merge_pixels(unit.head.out), windows=windows, window=None), source.low
    if any(window.padding):
        source = replace(source, low=np.minimum(source.low, fill), high=np.maximum(source.high, fill))
    read = source.take(np.repeat(np.arange(source.numel), taps))
    return PixelUnit(CircuitUnit(head, _posts(unit.posts), (read,)), window, tuple(fill.tolist()))


def _in_two_dimensions(shape: WindowShape) -> WindowShape:
    """Return a window over rows and columns; a line is an image with one row."""
    if len(shape.size) == 1:
        size, output, kernel, stride, padding, dilation = (
            (first, *getattr(shape, name))
            for first, name in (
                (1, "size"), (1, "output_size"), (1, "kernel"), (1, "stride"), (0, "padding"), (1, "dilation")
            )
        )  # fmt: skip
        shape = WindowShape(size, output, kernel, stride, padding, dilation)
    spans = [d * (k - 1) for k, d in zip(shape.kernel, shape.dilation, strict=True)]
    if any(pad > span for pad, span in zip(shape.padding, spans, strict=True)):
        raise ValueError("its padding is larger than its kernel")
    return shape


def _linear_window(head: LinearMap, taps: int, pixels: int) -> LinearMap:
    """Return the sums of a convolution for one window, whose elements are in the order channel, row, column."""
    positions = int(np.prod(head.out.shape[1:]))
    blocks = []
    for block in head.blocks:
        columns = np.arange(block.reads.shape[1])
        channels = np.where((block.reads == PADDING).all(axis=0), -1, block.reads.max(axis=0) // pixels)
        first = int((channels - columns // taps)[channels >= 0].max(initial=0))
        at = block.writes[:1] // positions
        blocks.append(Block(block.matrix, block.bias, (first * taps + columns)[None], at))
    return replace(head, blocks=tuple(blocks), out=merge_pixels(head.out), window=None)


def _at_a_pixel(unit: CircuitUnit, sources: Sequence[Signal]) -> Instruction:
    """Return an instruction whose pixels depend on the same pixels of its operands, for one of them."""
    head, pixels = unit.head, unit.out.numel // unit.out.shape[0]
    if any(source.numel // source.shape[0] != pixels for source in unit.sources):
        raise ValueError("its operands and results differ in size")
    if isinstance(head, LinearMap):
        return replace(
            head,
            blocks=tuple(_block_at_a_pixel(block, pixels) for block in head.blocks),
            out=merge_pixels(head.out),
        )
    if isinstance(head, Rearrange):
        index = head.index.reshape(-1, pixels)
        if (index % pixels != np.arange(pixels)).any() or (index // pixels != index[:, :1] // pixels).any():
            raise ValueError("it moves pixels")
        return replace(head, out=merge_pixels(head.out), index=index[:, 0] // pixels)
    if isinstance(head, Align):
        return replace(head, out=merge_pixels(head.out), shift=head.shift.reshape(-1, pixels).max(axis=1))
    if isinstance(head, LookUp | Rectify):
        return replace(head, out=merge_pixels(head.out))
    assert isinstance(head, Requantize), "all other instructions are handled above"
    return _requantize(head)


def _block_at_a_pixel(block: Block, pixels: int) -> Block:
    """Return a block for one pixel: the positions of a block are then channels."""
    if ((block.reads - block.writes[:, :1]) % pixels != 0)[block.reads != PADDING].any():
        raise ValueError("its pixels depend on others")
    found = np.concatenate([block.reads // pixels, block.writes // pixels], axis=1)
    channels, counts = np.unique(found, axis=0, return_counts=True)
    if (counts != pixels).any():
        raise ValueError("its pixels are computed in different ways")
    inputs = block.reads.shape[1]
    return replace(block, reads=channels[:, :inputs], writes=channels[:, inputs:])


def _posts(posts: Sequence[Post]) -> tuple[Post, ...]:
    return tuple(
        _requantize(post) if isinstance(post, Requantize) else replace(post, out=merge_pixels(post.out))
        for post in posts
    )


def _requantize(post: Requantize) -> Requantize:
    """Return a requantisation with one shift and one pair of limits per channel."""
    channels = np.arange(post.out.numel).reshape(post.out.shape[0], -1)
    if not shares_limits(post, channels):
        raise ValueError("the pixels of a channel are rounded or saturated in different ways")
    before = merge_pixels(post.before)
    return replace(post, out=merge_pixels(post.out), shift=post.shift[channels[:, 0]], before=before)
