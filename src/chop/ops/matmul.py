"""Products of tensors: matrices and einsum."""

from __future__ import annotations

import math
import operator

from chop.ops.base import Call, Count, Operand, Shape, numel
from chop.ops.spellings import data, multiply_each, register_spelled


def _matmul_count(call: Call) -> Count:
    return Count(macs=numel(call.results[0]) * call.operands["data_in_0"][-1])


def _second(keywords: tuple[str, ...], position: int = 1) -> Operand:
    return Operand("data_in_1", "weight", position, keywords, reduce_dim=-2, channel_dim=-1)


_PRODUCT = (*data("data_in"), _second(("other", "mat2", "vec", "tensor")))
register_spelled(
    "matmul",
    "builtin_func",
    _PRODUCT,
    other_names=("mm", "mv", "dot"),
    functions=(operator.matmul,),
    count=_matmul_count,
)
register_spelled("bmm", "builtin_func", _PRODUCT, count=_matmul_count)

# bias + data x weight
for _name, _factors in (("addmm", ("mat1", "mat2")), ("baddbmm", ("batch1", "batch2"))):
    register_spelled(
        _name,
        "builtin_func",
        (
            Operand("data_in_0", "data_in", 1, _factors[:1]),
            _second(_factors[1:], position=2),
            Operand("bias", "bias", 0, ("input",)),
        ),
        count=_matmul_count,
    )


_OUTER = data("data_in", "input", "vec2")
register_spelled("outer", "builtin_func", _OUTER, other_names=("ger",), count=multiply_each)


def _tensordot_count(call: Call) -> Count:
    """Count the MACs of a product without batches: its sizes are A x K, K x B and A x B."""
    sizes = (numel(call.operands["data_in_0"]), numel(call.operands["data_in_1"]), numel(call.results[0]))
    terms = math.isqrt(sizes[0] * sizes[1] // sizes[2]) if sizes[2] else 0
    return Count(macs=sizes[2] * terms)


register_spelled("tensordot", "builtin_func", data("data_in", "a", "b"), count=_tensordot_count)


def _einsum_count(call: Call) -> Count | None:
    """Count the product of the sizes of all indices; unknown for three tensors, which have several orders."""
    equation, shapes = call.attributes.get("equation"), list(call.operands.values())
    if not isinstance(equation, str) or len(shapes) > 2:
        return None
    inputs, _, _ = equation.replace(" ", "").partition("->")
    sizes = _index_sizes(inputs.split(","), shapes)
    if sizes is None:
        return None
    total, results = math.prod(sizes.values()), numel(call.results[0])
    if len(shapes) == 1:
        return Count(adds=total if total > results else 0)
    return Count(macs=total) if total > results else Count(multiplies=total)


def _index_sizes(terms: list[str], shapes: list[Shape]) -> dict[str, int] | None:
    """Return the size of each index of an equation; those of an ellipsis are counted from the end."""
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        before, dots, after = term.partition("...")
        rest = len(shape) - len(before) - len(after)
        if rest < 0 or (rest and not dots):
            return None
        hidden = [f"...{i}" for i in range(rest, 0, -1)]
        for index, size in zip((*before, *hidden, *after), shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    return sizes


register_spelled(
    "einsum",
    "builtin_func",
    (Operand("data_in_0", "data_in", 1, ("tensors",), variadic=True, starred=True),),
    attributes={"equation": 0},
    count=_einsum_count,
)
