"""The sizes of inputs that stay free in an exported program, and the conditions on them.

torch.export does not consider sizes of 1: for them, graph and model are compared on one row of one token.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from chop.ir.graph.input_sizes import CAPTURED_SIZES, CapturedSizes
from chop.ir.graph.model_state import unchanged

logger = logging.getLogger(__name__)

TOLERANCE = 1e-4
"""The largest relative difference of results that are the same but for the order of sums."""
_SIZE = r"L(?:\[[^]]+\])+\.size\(\)\[(\d)\]"
_RANGE = re.compile(rf"{_SIZE} (<|<=|>|>=|==) \d+|{_SIZE} == {_SIZE}")
_NO_DIVISOR = re.compile(rf"\((\d+) % {_SIZE}\) != 0")
"""True for all sizes above the number."""


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


def holds_for_its_ranges(program: ExportedProgram, inputs: Mapping[str, Any], *, lengths: bool) -> bool:
    """Whether the program holds for all sizes in its ranges, as opposed to, for example, even sizes only.

    A batch of one row is exported as two rows, to which a program may be fixed.
    """
    if any(each.shape and each.least_rows > each.shape[0] for each in captured_sizes(program, inputs).values()):
        return False
    conditions: list[str] | None = getattr(program, "_guards_code", None)
    if conditions is None:  # older versions of torch do not keep them
        return not lengths
    return all(_RANGE.fullmatch(each) or _NO_DIVISOR.fullmatch(each) or _is_identity(each) for each in conditions)


def _above_divisors(program: ExportedProgram, axis: int) -> int:
    """Return the least size of an axis for which conditions such as `2 % rows != 0` are always true."""
    found = map(_NO_DIVISOR.fullmatch, getattr(program, "_guards_code", None) or ())
    return max((int(match[1]) + 1 for match in found if match and int(match[2]) == axis), default=0)


def _is_identity(condition: str) -> bool:
    """Whether a condition, such as `10 * n % n == 0`, is true for all inputs of the same rows and lengths."""
    from sympy import Symbol, sympify  # takes long to import

    symbols = {f"size_{axis}": Symbol(f"size_{axis}", integer=True, positive=True) for axis in range(10)}
    left, equal, right = re.sub(_SIZE, r"size_\1", condition).partition(" == ")
    return bool(equal) and sympify(left, symbols) == sympify(right, symbols)


def rows_are_fixed(program: ExportedProgram) -> bool:
    """Whether no input has a free number of rows."""
    inputs = (node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs)
    values = (node.meta.get("val") for node in inputs)
    rows = [value.shape[0] for value in values if isinstance(value, Tensor) and value.dim()]
    return bool(rows) and not any(isinstance(size, torch.SymInt) and size.node.expr.is_Symbol for size in rows)


def captured_sizes(program: ExportedProgram, inputs: Mapping[str, Any]) -> dict[str, CapturedSizes]:
    """Return the sizes of the inputs that are tensors, and the lengths that the program takes."""
    exported = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
    return {name: _sizes(program, value, exported.get(name)) for name, value in tensors.items()}


def _sizes(program: ExportedProgram, value: Tensor, exported: Any) -> CapturedSizes:
    shape = tuple(value.shape)
    sizes = exported.shape if isinstance(exported, Tensor) else shape
    rows = _bounds(program, sizes[0], shape[0], _above_divisors(program, 0)) if shape else (0, None)
    length: tuple[int, int | None] = (0, None)
    if _is_sequence(value):
        length = _bounds(program, sizes[1], shape[1], _above_divisors(program, 1))
    return CapturedSizes(shape, *length, *rows)


def _bounds(
    program: ExportedProgram, size: int | torch.SymInt, example: int, at_least: int
) -> tuple[int, int | None]:
    """Return the smallest and the largest size of an axis; None means no limit."""
    if not isinstance(size, torch.SymInt):
        return size, size
    bounds = program.range_constraints.get(size.node.expr)
    if bounds is None:
        fixed = int(size.node.expr) if size.node.expr.is_Integer else example
        return fixed, fixed
    least = int(bounds.lower)
    most = int(bounds.upper) if bounds.upper.is_Integer else None  # it may be infinite
    # torch.export never considers sizes below 2; whether the graph takes one is checked when it is complete.
    return max(1 if least == 2 else least, at_least), most


def check_sizes_of_one(graph: fx.Graph, model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Refuse lengths of 1, and single rows with a warning, if the graph does not compute the same as the model."""
    sizes: dict[fx.Node, CapturedSizes] = {
        node: node.meta[CAPTURED_SIZES] for node in graph.nodes if CAPTURED_SIZES in node.meta
    }
    sequences = {str(node.target): node for node, each in sizes.items() if each.least == 1}
    shortened = {name: value[:, :1] if name in sequences else value for name, value in inputs.items()}
    if _agree(graph, model, _one_row(shortened)):
        return
    if sequences and not _agree(graph, model, shortened):
        for node in sequences.values():
            node.meta[CAPTURED_SIZES] = replace(sizes[node], least=2)
    batches = [node for node, each in sizes.items() if each.least_rows == 1 != each.most_rows]
    if (batches or not sizes) and not _agree(graph, model, _one_row(inputs)):
        for node in batches:
            node.meta[CAPTURED_SIZES] = replace(node.meta[CAPTURED_SIZES], least_rows=2)
        logger.warning(
            "the graph of %s computes something else than the model for a single row", type(model).__name__
        )


def _one_row(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    one: Mapping[str, Any] = pytree.tree_map_only(
        Tensor, lambda tensor: tensor[:1] if tensor.dim() else tensor, dict(inputs)
    )
    return one


def _agree(graph: fx.Graph, model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Return whether the graph computes the same as the model, also if the model does not take the inputs."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    values = [inputs.get(str(node.target), node.args[0] if node.args else None) for node in placeholders]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        state = torch.get_rng_state()
        try:
            with unchanged(model):
                expected = model(**copied(dict(inputs)))
        except Exception:  # noqa: BLE001  # the model's own error, which its users know
            return True
        torch.set_rng_state(state)
        try:
            with unchanged(model):
                found = fx.Interpreter(model, graph=graph).run(*copied(values), enable_io_processing=False)
        except Exception:  # shapes that do not fit raise errors of many kinds
            logger.debug("%s does not run on a size of 1", type(model).__name__, exc_info=True)
            return False
    ours, theirs = (
        [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, Tensor)] for results in (expected, found)
    )
    return len(ours) == len(theirs) and all(map(_close, ours, theirs))


def copied(values: Any) -> Any:
    """Return nested values with copies of the tensors; the copy of a part of a tensor is whole."""
    return pytree.tree_map_only(Tensor, Tensor.clone, values)


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    largest = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() and a.is_floating_point() else 0.0
    return torch.allclose(a, b, TOLERANCE, TOLERANCE * largest, equal_nan=True)
