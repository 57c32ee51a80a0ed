"""What the page shows about each tensor of a node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.page.tensor_values import TensorName, TensorValues


@lru_cache(maxsize=1024)
def format_name(number_format: Format) -> str:
    """Return the format as text, with `float` for 32-bit floating point."""
    return "float" if number_format == Float() else str(number_format)


def describe_tensors(meta: NodeMeta, original: NodeMeta | None, values: TensorValues) -> list[dict[str, Any]]:
    """Return what the page shows about the operands of a node, then its results.

    `before` is the format of a tensor in the original graph, `histogram` the position in the document's list.
    """
    if meta.node.op == "output":
        return []
    before = {} if original is None else original.args | original.results
    return [
        {
            "name": name,
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "format": format_name(tensor.format),
            "bits": tensor.format.bits,
            "before": format_name(before[name].format) if name in before else None,
            "histogram": values.summary_index.get((meta.node.name, name)),
            "representable": _representable(values, (meta.node.name, name)),
            "rounding": _rounding(values, (meta.node.name, name)),
        }
        for name, tensor in (meta.args | meta.results).items()
    ]


def describe_histogram(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and bars of a histogram, from the result of the statistic `summary`."""
    edges = summary["edges"].tolist() if summary["count"] else []
    if not edges or not all(map(math.isfinite, edges)):
        return {"count": summary["count"], "num_not_finite": summary.get("nan_count", 0), "counts": []}
    counts = summary["counts"].tolist()
    variance = summary["variance"]
    return {
        "low": summary["min"],
        "high": summary["max"],
        "from": edges[0],
        "to": edges[-1],
        "mean": summary["mean"],
        "median": summary["quantiles"][0].item(),
        "standard_deviation": math.sqrt(max(variance, 0.0)) if math.isfinite(variance) else None,
        "zeros": summary["zeros"] / summary["count"],
        "count": summary["count"],
        "num_not_finite": summary["nan_count"] + summary["count"] - sum(counts),
        "counts": counts,
    }


def _representable(values: TensorValues, key: TensorName) -> dict[str, Any] | None:
    found = values.representable.get(key)
    if found is None or key not in values.summary_index:
        return None
    summary = values.summaries[values.summary_index[key]]
    drawn, stride = found.between(summary["min"], summary["max"]) if summary["count"] else ([], 1)
    return {
        "low": found.low,
        "high": found.high,
        "step": found.step,
        "num_values": found.num_values,
        "num_scales": found.num_scales,
        "values": [_rounded(value) if value else value for value in drawn],
        "stride": stride,
    }


@lru_cache(maxsize=2**16)
def _rounded(value: float) -> float:
    """Return a number with 6 digits; many tensors of a graph have the same representable values."""
    return float(f"{value:.6g}")


def _rounding(values: TensorValues, key: TensorName) -> dict[str, Any] | None:
    if key not in values.roundings:
        return None
    fit = values.roundings[key].read()
    return {"saturated": fit.saturated, "zeroed": fit.to_zero, "sqnr_db": fit.sqnr_db, "count": fit.num_values}
