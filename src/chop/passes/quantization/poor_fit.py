"""Warnings about fixed-point formats that suit the values of a tensor worse than others of the same width."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, fx

from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.quantization.suggest import Suggestion, best_of_width
from chop.statistics.format_fit import MAX_SAMPLE_SIZE, FormatFitMeter

if TYPE_CHECKING:
    from chop.ir import NodeMeta

logger = logging.getLogger(__name__)

MAX_SHARE = 0.05
"""The share of values that may saturate or become 0 without a warning."""
MIN_GAIN_DB = 3.0
"""How much better another number of fraction bits must be."""
MAX_WARNINGS = 4


@dataclass(frozen=True)
class PoorFit:
    """An operand of a node whose values saturate or become 0, and a better format of the same width."""

    node: str
    operand: str
    format: Integer
    saturated: float
    to_zero: float
    sqnr_db: float
    better: Suggestion

    def __str__(self) -> str:
        saturates = self.saturated > MAX_SHARE
        share, what = (self.saturated, "saturate") if saturates else (self.to_zero, "become 0")
        return (
            f"quantize '{self.node}': {share:.0%} of the values of {self.operand} {what} in {self.format}; "
            f"{self.better.format} has a signal-to-noise ratio of {self.better.sqnr_db:.0f} dB instead of "
            f"{self.sqnr_db:.0f} dB"
        )


def warn_about_poor_fits(
    replacements: Mapping[fx.Node, QuantizedLayer | QuantizedCall], metas: Mapping[fx.Node, NodeMeta]
) -> list[PoorFit]:
    """Return the operands whose fixed-point format does not suit their values, and warn about the worst of them."""
    found = [
        poor
        for node, new in replacements.items()
        for operand, number_format in new.formats.items()
        if isinstance(number_format, Integer) and number_format.is_fixed_point
        for poor in [_poor_fit(node.name, operand, number_format, metas[node].value(operand))]
        if poor is not None
    ]
    found.sort(key=lambda each: each.better.sqnr_db - each.sqnr_db, reverse=True)
    for each in found[:MAX_WARNINGS]:
        logger.warning("%s", each)
    if len(found) > MAX_WARNINGS:
        logger.warning(
            'quantize: the same holds for %d more operands; frac_width = "auto" chooses fraction bits from data',
            len(found) - MAX_WARNINGS,
        )
    return found


def _poor_fit(node: str, operand: str, number_format: Integer, value: Tensor | None) -> PoorFit | None:
    if value is None or value.numel() == 0:
        return None
    flat = value.detach().flatten()
    sample = flat[:: -(-len(flat) // MAX_SAMPLE_SIZE)].double().cpu()
    meter = FormatFitMeter(number_format, keeps_sample=False)
    meter.add(sample)
    fit = meter.read()
    if fit.saturated is None or fit.to_zero is None or max(fit.saturated, fit.to_zero) <= MAX_SHARE:
        return None
    finite = sample[sample.isfinite()]
    better = best_of_width(finite, number_format.width, number_format.is_signed)
    sqnr = fit.sqnr_db if fit.sqnr_db is not None else 0.0
    if better is None or better.sqnr_db < sqnr + MIN_GAIN_DB:
        return None
    return PoorFit(node, operand, number_format, fit.saturated, fit.to_zero, sqnr, better)
