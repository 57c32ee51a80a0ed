"""Options of `ch explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(RunConfig):
    """Explain one node of a run: its values, formats, cost, and formats to try."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch explain latest",
        "ch explain seq_blocks_2                 a node of the newest run",
        "ch explain latest:transform seq_blocks_2",
        "ch explain mase_output/jsc-toy_classification_jsc_2026-01-31 seq_blocks_2",
    )

    node: str | None = option(None, kind="positional", help="name of the node; default: list all nodes")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    sqnr: float = option(
        30.0, least=0, help="minimum signal-to-quantisation-noise ratio of suggested formats, in dB"
    )
