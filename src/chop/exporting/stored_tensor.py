"""A tensor in a number format as what is stored of it: codes of its elements, and scales."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.mixed_integer import MixedInteger
from chop.formats.parts.blocks import Blocks, divided_dim
from chop.formats.parts.grid import IntegerGrid
from chop.formats.ternary import Ternary

Kind = Literal["signed", "unsigned", "table"]
MAX_TABLE_WIDTH = 16


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """The numbers are `element(codes) * unit * scale`; codes are in blocks if scales are shared by blocks."""

    format: Format
    kind: Kind
    """Whether codes are two's complement integers, unsigned integers, or indices of `table`."""
    codes: Tensor
    """In the shape of the blocks: a row of 40 elements in blocks of 16 has the shape [3, 16]."""
    scale: Tensor | None
    """In float32, and in a shape that broadcasts against `codes`; None: 1."""
    tensor_scale: float | None
    """A second scale, of the whole tensor; `scale` is multiplied by it in float32."""
    unit: float
    """A power of two."""
    shape: tuple[int, ...]
    padded: tuple[int, ...]
    """The shape with complete blocks."""
    block: tuple[int, int] | None
    """The dimension along which blocks run, and their size."""

    @property
    def table(self) -> Tensor:
        """The numbers of all codes, without scales."""
        return self.format.decode(torch.arange(2**self.format.width)).float()

    @property
    def scales(self) -> Tensor | None:
        """The complete scales in float32."""
        if self.scale is None or self.tensor_scale is None:
            return self.scale
        return self.scale * torch.tensor(self.tensor_scale, dtype=torch.float32)

    def numbers(self) -> Tensor:
        """Return the tensor in float32."""
        elements = self.table[self.codes] if self.kind == "table" else self.codes
        values = elements.double() * self.unit
        if self.scales is not None:
            values = values * self.scales.double()
        return values.float().reshape(self.padded)[tuple(slice(n) for n in self.shape)]


def store(number_format: Format, value: Tensor, scale: Tensor | None = None) -> StoredTensor:
    """Return what is stored of a tensor; `scale` is a learned or calibrated one.

    Raise an error if codes and scales do not give exactly the numbers of the format.
    """
    value = value.detach()
    if not number_format.is_repeatable:
        raise ValueError("which rounds differently in each call")
    codes, scales = _encoded(number_format, value, scale)
    kind = _kind(number_format)
    if kind == "table" and number_format.width > MAX_TABLE_WIDTH:
        raise ValueError(f"whose codes are wider than {MAX_TABLE_WIDTH} bits and not integers")
    found = _in_blocks(number_format, kind, codes, scales)
    if kind != "table" and found.scale is not None and not isinstance(number_format, Integer | MixedInteger):
        # The value of 1 in a block whose scale is 1: MXINT8 has a unit of 1/64.
        found = replace(found, unit=float(number_format.decode(torch.ones(1, dtype=torch.int64))))
    if not torch.equal(found.numbers(), quantize(number_format, value, scale).float()):
        raise ValueError("whose numbers are not products of elements and scales in float32")
    return found


def quantize(number_format: Format, value: Tensor, scale: Tensor | None) -> Tensor:
    """Return rounded numbers; `scale` is a learned or calibrated one, for formats that take one."""
    return number_format.quantize(value) if scale is None else number_format.quantize(value, scale.detach())  # type: ignore[call-arg]


def _encoded(number_format: Format, value: Tensor, scale: Tensor | None) -> tuple[Tensor, tuple[Tensor, ...]]:
    if scale is None and not number_format.has_codes():
        integers, steps = number_format.integers(value)
        return integers, (steps.float(),)
    if scale is None:
        return number_format.encode(value)
    used = scale.detach().float()
    if isinstance(number_format, Integer):
        integers, step = number_format.integers(value, used)
        return integers, (step.float(),)
    assert isinstance(number_format, FP8), "no other format takes a scale"
    elements = number_format.grid.round(quantize(number_format, value, used).div(used))
    return number_format.grid.encode(elements), (used,)


def _kind(number_format: Format) -> Kind:
    if isinstance(number_format, Integer | MixedInteger):
        return "signed" if number_format.is_signed else "unsigned"
    is_integer = isinstance(getattr(number_format, "grid", None), IntegerGrid)
    return "signed" if is_integer or isinstance(number_format, Ternary) else "table"


def _in_blocks(number_format: Format, kind: Kind, codes: Tensor, scales: tuple[Tensor, ...]) -> StoredTensor:
    """Return codes and scales; codes are divided into blocks if the scales belong to blocks."""
    shape = tuple(codes.shape)
    found = StoredTensor(number_format, kind, codes, None, None, 1.0, shape, shape, None)
    if not scales:
        if isinstance(number_format, Integer):
            return replace(found, unit=math.ldexp(1.0, -int(number_format.precision[1])))
        return found
    tensor_scale = float(scales[1]) if len(scales) > 1 else None
    found = replace(found, scale=scales[0].float(), tensor_scale=tensor_scale)
    if scales[0].dim() <= codes.dim():
        return found
    size = number_format.group_size if isinstance(number_format, Integer) else vars(number_format)["block_size"]
    block_dim = vars(number_format)["block_dim"]
    blocks = Blocks.of(codes, size, block_dim)
    dim = divided_dim(codes.dim(), block_dim)
    block = (dim, blocks.values.shape[blocks.dims[0]]) if isinstance(size, int) else None
    return replace(found, codes=blocks.values, padded=blocks.padded, block=block)
