"""Options of `ch explain`."""

from __future__ import annotations

from dataclasses import dataclass

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ExplainConfig(RunConfig):
    """Explain one node of a run: value ranges and formats, suggested formats, and cost."""

    node: str | None = option(None, kind="positional", help="name of the node; default: list all nodes")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    sqnr: float = option(
        30.0, least=0, help="lowest signal-to-quantisation-noise ratio of a suggested format, in dB"
    )
