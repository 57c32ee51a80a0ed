"""Operations of layers that consist of several ops, and therefore are not in the op table."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from chop.ir import NodeMeta
from chop.ops import OPS, Call, Count, Shape


@dataclass(frozen=True)
class LayerCount:
    """The operations of a layer, and the number of products per sum for each of `count.products`."""

    count: Count
    terms: tuple[int, ...]


def layer_count(meta: NodeMeta) -> LayerCount | None:
    """Return the operations of a composite layer; None for any other node."""
    module = meta.module
    is_attention = (
        isinstance(module, nn.MultiheadAttention) and type(module).forward is nn.MultiheadAttention.forward
    )
    if not is_attention or len(meta.node.args) < 3:
        return None  # as keyword arguments, query, key and value may be in any order
    assert isinstance(module, nn.MultiheadAttention)
    return _multihead_attention(meta, module)


def _multihead_attention(meta: NodeMeta, module: nn.MultiheadAttention) -> LayerCount:
    """Count three input projections, attention in each head, and the output projection."""
    queries, keys = (_batch_and_length(meta, name, module) for name in ("data_in_0", "data_in_1"))
    width, heads = module.embed_dim, module.num_heads
    batch, length = queries
    seen = keys[1] + (module.bias_k is not None) + module.add_zero_attn
    head = (batch, heads, length, width // heads)
    key: Shape = (batch, heads, seen, width // heads)
    shapes = {"data_in_0": head, "data_in_1": key, "data_in_2": key}
    inner = OPS["scaled_dot_product_attention"].count(Call(shapes, (head,), {}))
    averaged = _average_of_heads(meta, batch * length * seen, heads)
    projections = (
        ("data_in_0", width, batch * length * width),
        ("data_in_1", module.kdim, batch * keys[1] * width),
        ("data_in_2", module.vdim, batch * keys[1] * width),
        ("data_in_0", width, batch * length * width),
    )
    products = tuple((name, "weight", terms * results) for name, terms, results in projections)
    count = Count(
        macs=inner.macs + sum(macs for _, _, macs in products),
        multiplies=inner.multiplies + averaged.multiplies,
        adds=inner.adds + averaged.adds,
        products=(*products, *inner.products),
    )
    return LayerCount(count, (*(terms for _, terms, _ in projections), width // heads, seen))


def _average_of_heads(meta: NodeMeta, scores: int, heads: int) -> Count:
    """Count the operations of the optional second result: the mean of the probabilities over the heads."""
    weights = meta.results.get("data_out_1")
    if weights is None or weights.numel != scores:
        return Count()
    return Count(adds=heads * scores, multiplies=scores)


def _batch_and_length(meta: NodeMeta, name: str, module: nn.MultiheadAttention) -> tuple[int, int]:
    shape = meta.args[name].shape
    if len(shape) == 2:
        return 1, shape[0]
    return (shape[0], shape[1]) if module.batch_first else (shape[1], shape[0])
