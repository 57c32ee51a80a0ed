"""Element-wise ops of two operands, means and concatenation."""

from __future__ import annotations

import operator

import torch

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.table import register_op

_BOTH = (
    Operand("data_in_0", "data_in", 0, ("input",)),
    Operand("data_in_1", "data_in", 1, ("other",)),
)


def _adds(call: Call) -> Count:
    return Count(adds=numel(call.results[0]))


def _multiplies(call: Call) -> Count:
    return Count(multiplies=numel(call.results[0]))


for _names, _operators, _count in (
    (("add",), (operator.add, operator.iadd), _adds),
    (("sub", "subtract"), (operator.sub, operator.isub), _adds),
    (("mul", "multiply"), (operator.mul, operator.imul), _multiplies),
    (("div", "divide", "true_divide"), (operator.truediv, operator.itruediv), _multiplies),
):
    register_op(
        Op(
            _names[0],
            "builtin_func",
            operands=_BOTH,
            functions=(*(getattr(torch, name) for name in _names), *_operators),
            methods=tuple(method for name in _names for method in (name, f"{name}_")),
            count=_count,
        )
    )


def _mean_count(call: Call) -> Count:
    return Count(adds=numel(call.operands["data_in_0"]), multiplies=numel(call.results[0]))


register_op(
    Op(
        "mean",
        "builtin_func",
        operands=(Operand("data_in_0", "data_in", 0, ("input",)),),
        functions=(torch.mean,),
        methods=("mean",),
        count=_mean_count,
    )
)
register_op(
    Op(
        "cat",
        "builtin_func",
        operands=(Operand("data_in_0", "data_in", 0, ("tensors",), variadic=True),),
        functions=(torch.cat, torch.concat, torch.concatenate),
    )
)
