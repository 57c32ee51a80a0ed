"""Bit operations of a node: its operations, weighed by the bits of its operands."""

from __future__ import annotations

from chop.cost.conventions import Number, Work, bitops_formula
from chop.cost.operations import count
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.ops import Count


def bitops(meta: NodeMeta, convention: str = "mase") -> Number | None:
    """Bit operations of a node, an int where they are whole; None if its operations are not known."""
    formula, counted = bitops_formula(convention), count(meta)
    return None if counted is None else whole(formula(_work(meta, counted)))


def whole(value: Number) -> Number:
    """An int where the value is one, so that large counts stay exact."""
    return int(value) if value == int(value) else value


def _work(meta: NodeMeta, counted: Count) -> Work:
    """The node's operations with the bits of their operands.

    MACs multiply `data_in_0` with the operand of role `weight` (`data_in_1` of a matrix product), unless the
    op says otherwise: attention multiplies the query with the key, and the probabilities, which are as wide
    as the query, with the value. All other operations of an op with MACs or with one operand work on what is as
    wide as its first operand; a product of two tensors has the bits of both.
    """
    bits = {name: whole(tensor.format.bits) for name, tensor in meta.args.items()}
    data = next(iter(bits.values()), whole(Float().bits))
    pairs = counted.products or (("data_in_0", _weight_name(meta), counted.macs),)
    is_product = not counted.macs and {"data_in_0", "data_in_1"} <= bits.keys()
    return Work(
        count=counted,
        products=tuple((macs, bits[left], bits[right]) for left, right, macs in pairs if macs),
        data=data,
        other=bits["data_in_1"] if is_product else data,
        bias=bits["bias"] if "bias" in bits else 0,
    )


def _weight_name(meta: NodeMeta) -> str:
    operands = meta.op.operands if meta.op is not None else ()
    return next((operand.name for operand in operands if operand.role == "weight"), "weight")
