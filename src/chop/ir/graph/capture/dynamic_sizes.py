"""The sizes of inputs that stay free in an exported program, and the conditions on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from chop.ir.graph.input_sizes import CapturedSizes

_SIZE = r"L\['\w+'\]\.size\(\)\[\d\]"
_RANGE = re.compile(rf"{_SIZE} (<|<=|>|>=|==) \d+|{_SIZE} == {_SIZE}")


def free_axes(inputs: Mapping[str, Any], *, lengths: bool) -> dict[str, Any]:
    """Return the axes of inputs whose sizes stay free if the model allows it: the rows, and lengths if wanted."""
    return {
        name: {0: Dim.AUTO, 1: Dim.AUTO} if lengths and _is_sequence(value) else pytree.tree_map(_rows, value)
        for name, value in inputs.items()
    }


def has_lengths(inputs: Mapping[str, Any]) -> bool:
    """Whether an input is a sequence."""
    return any(map(_is_sequence, inputs.values()))


def _rows(value: Any) -> dict[int, Any] | None:
    return {0: Dim.AUTO} if isinstance(value, Tensor) and value.dim() else None


def _is_sequence(value: Any) -> bool:
    """Whether an input is tokens or a mask [rows, length], or vectors [rows, length, size]."""
    return isinstance(value, Tensor) and (value.dim() == 3 or (value.dim() == 2 and not value.is_floating_point()))


def conditions_are_ranges(program: ExportedProgram) -> bool:
    """Whether the program holds for all sizes in its ranges, as opposed to, for example, even sizes only."""
    # Older versions of torch do not keep the conditions.
    conditions: list[str] | None = getattr(program, "_guards_code", None)
    return conditions is not None and all(map(_RANGE.fullmatch, conditions))


def captured_sizes(program: ExportedProgram, inputs: Mapping[str, Any]) -> dict[str, CapturedSizes]:
    """Return the sizes of the inputs that are tensors, and the lengths that the program takes."""
    exported = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
    return {name: _sizes(program, value, exported.get(name)) for name, value in tensors.items()}


def _sizes(program: ExportedProgram, value: Tensor, exported: Any) -> CapturedSizes:
    shape = tuple(value.shape)
    if not _is_sequence(value):
        return CapturedSizes(shape)
    length = exported.shape[1] if isinstance(exported, Tensor) else None
    bounds = program.range_constraints.get(length.node.expr) if isinstance(length, torch.SymInt) else None
    if bounds is None:
        return CapturedSizes(shape, shape[1], shape[1])
    least = int(bounds.lower)
    most = int(bounds.upper) if bounds.upper.is_Integer else None  # it may be infinite
    # torch.export never considers sizes below 2; whether the graph takes one token is checked when it is complete.
    return CapturedSizes(shape, 1 if least == 2 else least, most)
