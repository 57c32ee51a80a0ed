"""Attention of queries to keys and values."""

from __future__ import annotations

from chop.ops.base import Call, Count, Factors, Operand, Shape, numel
from chop.ops.normalization import softmax_count
from chop.ops.spellings import data, register_spelled


def attention_count(query: Shape, key: Shape, value: Shape, result: Shape) -> Count:
    """Count the scores, their softmax and the weighted sums of the values, of [batch, heads, length, width]."""
    shape = (*result[:-1], key[-2])  # of the scores; the batches of query and key are broadcast
    scores = numel(shape)
    by_key, by_value = scores * query[-1], scores * value[-1]
    # Nothing is rounded between the two products: the probabilities count with the width of the query.
    products = (
        Factors("data_in_0", "data_in_1", by_key, query[-1]),
        Factors("data_in_0", "data_in_2", by_value, key[-2]),
    )
    return Count(macs=by_key + by_value, multiplies=scores, products=products) + softmax_count(shape)


def _attention_count(call: Call) -> Count:
    query, key, value = (call.operands[f"data_in_{i}"] for i in range(3))
    return attention_count(query, key, value, call.results[0])


register_spelled(
    "scaled_dot_product_attention",
    "module_related_func",
    (
        *data("data_in", "query", "key"),
        Operand("data_in_2", "data_in", 2, ("value",), reduce_dim=-2),
    ),
    count=_attention_count,
)
