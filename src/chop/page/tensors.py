"""What the page shows of each tensor of a node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.page.measure import Key, Measured


@dataclass(frozen=True)
class TensorView:
    """One operand or result."""

    name: str
    shape: list[int]
    dtype: str
    format: str
    bits: float
    before: str | None
    """Its format in the original graph."""
    histogram: int | None
    """The place of its histogram among those of the document."""
    grid: dict[str, Any] | None
    """What its format can represent."""
    rounding: dict[str, Any] | None
    """What its format does to its values."""


def format_name(number_format: Format) -> str:
    return "float" if number_format == Float() else str(number_format)


def tensors_of(meta: NodeMeta, was: NodeMeta | None, measured: Measured) -> list[TensorView]:
    """The operands of a node, then its results."""
    if meta.node.op == "output":
        return []
    old = {} if was is None else was.args | was.results
    return [
        TensorView(
            name=name,
            shape=list(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            format=format_name(tensor.format),
            bits=tensor.format.bits,
            before=format_name(old[name].format) if name in old else None,
            histogram=measured.places.get((meta.node.name, name)),
            grid=_grid(measured, (meta.node.name, name)),
            rounding=_rounding(measured, (meta.node.name, name)),
        )
        for name, tensor in (meta.args | meta.results).items()
    ]


def histogram_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers and bars of a tensor, from its `summary`."""
    if found["count"] == 0 or not bool(found["edges"].isfinite().all()):
        return {"count": found["count"], "odd": found.get("nan_count", 0), "counts": []}
    counts = found["counts"].tolist()
    return {
        "low": found["min"],
        "high": found["max"],
        "from": found["edges"][0].item(),
        "to": found["edges"][-1].item(),
        "mean": found["mean"],
        "median": found["quantiles"][0].item(),
        "deviation": math.sqrt(max(found["variance"], 0.0)) if math.isfinite(found["variance"]) else None,
        "zeros": found["zeros"] / found["count"],
        "count": found["count"],
        "odd": found["nan_count"] + found["count"] - sum(counts),
        "counts": counts,
    }


def _grid(measured: Measured, key: Key) -> dict[str, Any] | None:
    found = measured.representable.get(key)
    if found is None or key not in measured.places:
        return None
    seen = measured.summaries[measured.places[key]]
    values, stride = found.between(seen["min"], seen["max"]) if seen["count"] else ([], 1)
    return {
        "low": found.low,
        "high": found.high,
        "step": found.step,
        "num_values": found.num_values,
        "num_scales": found.num_scales,
        "values": [float(f"{value:.6g}") for value in values],
        "stride": stride,
    }


def _rounding(measured: Measured, key: Key) -> dict[str, Any] | None:
    if key not in measured.roundings:
        return None
    found = measured.roundings[key].read()
    return {
        "saturated": found.saturated,
        "zeroed": found.to_zero,
        "sqnr_db": found.sqnr_db,
        "count": found.num_values,
    }
