"""What a page shows about a graph, besides its nodes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chop.ir import MaseGraph

Info = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PageFacts:
    """The results of passes and of a run; None where there are none."""

    title: str | None = None
    """The title of the page; None: the name of the model's class."""
    original: MaseGraph | None = None
    """The graph before the transforms, to compare with."""
    cost: Info | None = None
    """The `info` of `estimate_cost`; None: the pass is run."""
    cost_before: Info | None = None
    """The `info` of `estimate_cost` for the original; None: the pass is run if there is one."""
    comparison: Info | None = None
    """The `info` of `compare_graphs`; None: the pass is run if there are an original and batches."""
    sensitivity: Info | None = None
    """The `info` of `sensitivity`."""
    curves: Sequence[Info] | None = None
    """The lines of `metrics.jsonl`."""
    search: Info | None = None
    """The log of a search: `study`, `metrics` and `trials`."""
    run: Info | None = None
    """The summary of the run that created the graph."""
    hardware: Info | None = None
    """The manifest of the graph's circuit, as `emit_verilog` writes it."""
