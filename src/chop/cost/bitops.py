"""Bit operations of a node: its operations, weighted by the widths of its operands."""

from __future__ import annotations

from functools import partial

from chop.cost.conventions import Number, Product, Work, bitops_formula, exact_int
from chop.cost.operations import count
from chop.cost.used_bits import used_bits
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.ops import Count, Factors, numel

_FLOAT = Float()


def bitops(meta: NodeMeta, convention: str = "mase") -> Number | None:
    """Return the bit operations of a node, as an int if possible; None if its operations are unknown."""
    return bitops_in(work(meta), convention)


def bitops_in(found: Work | None, convention: str) -> Number | None:
    """Return the bit operations of a node's work, None if it is unknown."""
    formula = bitops_formula(convention)
    return None if found is None else exact_int(formula(found))


def work(meta: NodeMeta) -> Work | None:
    """Return the node's operations with the formats of their operands; None if they are unknown.

    MACs multiply `data_in_0` by the operand with role `weight` (`data_in_1` of a matrix product), unless the op
    declares other products: attention multiplies the query by the key, and the probabilities, which have the
    width of the query, by the value. All other operations have the width of the first operand; only a product
    of two tensors has the widths of both.
    """
    counted = count(meta)
    if counted is None:
        return None
    formats = {name: tensor.format for name, tensor in meta.args.items()}
    data = next(iter(formats.values()), _FLOAT)
    is_product = not counted.macs and {"data_in_0", "data_in_1"} <= formats.keys()
    return Work(
        count=counted,
        products=_products(meta, counted, formats),
        data=data,
        other=formats["data_in_1"] if is_product else data,
        bias=formats["bias"] if "bias" in formats else None,
    )


def _products(meta: NodeMeta, counted: Count, formats: dict[str, Format]) -> tuple[Product, ...]:
    if not counted.macs:
        return ()
    pairs = counted.products or (_all_macs(meta, counted),)
    return tuple(
        Product(
            macs,
            formats.get(left, _FLOAT),
            formats.get(right, _FLOAT),
            terms,
            partial(used_bits, meta, left, right),
        )
        for left, right, macs, terms in pairs
        if macs
    )


def _all_macs(meta: NodeMeta, counted: Count) -> Factors:
    """Return all MACs as products of the data with the operand whose role is `weight`."""
    operands = meta.op.operands if meta.op is not None else ()
    weight = next((operand.name for operand in operands if operand.role == "weight"), "data_in_1")
    return Factors("data_in_0", weight, counted.macs, counted.macs // numel(meta.call().results[0]))
