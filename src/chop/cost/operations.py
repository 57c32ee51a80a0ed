"""Operations of a node, and bit operations: its operations, weighted by the widths of their operands."""

from __future__ import annotations

from functools import partial

import torch
from torch import fx

from chop.cost.conventions import Number, Product, Work, bitops_formula, exact_int, operations_formula
from chop.cost.used_bits import used_bits
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.ir.graph.meta import GRAPH_KINDS
from chop.ops import Count, Factors, numel


def count(meta: NodeMeta) -> Count | None:
    """Return the operations of a node by kind; None if they are unknown."""
    if meta.op is None:
        return Count() if meta.node.op in GRAPH_KINDS else None
    if not meta.results:
        return Count()  # arithmetic on shapes
    call = meta.call()
    if _computed(tuple(call.attributes.values())):
        return None
    return meta.op.count(call)


def _computed(attribute: object) -> bool:
    """Whether an attribute is computed by another node, such as a window as large as the input."""
    if isinstance(attribute, tuple | list):
        return any(_computed(item) for item in attribute)
    return isinstance(attribute, fx.Node)


def operations(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Return the operations of a node in any format; None if they are unknown."""
    return operations_in(count(meta), convention)


def operations_in(counted: Count | None, convention: str) -> int | None:
    """Return the operations of a count, None if it is unknown."""
    formula = operations_formula(convention)
    return None if counted is None else formula(counted)


def flops(meta: NodeMeta, convention: str = "mase") -> int | None:
    """Return the floating-point operations of a node: all of its operations or none; None if they are unknown."""
    found = operations(meta, convention)
    return found if found is None or is_floating_point(meta) else 0


def is_floating_point(meta: NodeMeta) -> bool:
    """Whether the first operand of a node is in a floating-point format, and is not a tensor of integers."""
    first = next(iter(meta.args.values()), None)
    return first is None or (first.format.floating_point and first.dtype not in _INTEGERS)


_INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


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
