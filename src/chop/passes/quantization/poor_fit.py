"""Warnings about fixed-point formats that suit the values of a tensor worse than others of the same width."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, fx

from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.quantization.suggest import Suggestion, best_of_width
from chop.statistics.deviation import decibel
from chop.statistics.format_fit import MAX_SAMPLE_SIZE, Losses, Values

if TYPE_CHECKING:
    from chop.ir import NodeMeta

logger = logging.getLogger(__name__)

MAX_SHARE = 0.05
"""The share of values that may saturate or become 0 without a warning."""
MIN_GAIN_DB = 3.0
"""How much better another number of fraction bits must be."""
MAX_WARNINGS = 4
_ENDS = torch.tensor([-math.inf, math.inf], dtype=torch.float64)
"""Rounded to the smallest and the largest number of a format."""


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
    found = [poor for node, new in replacements.items() for poor in _poor_fits(metas[node], new)]
    found.sort(key=lambda each: each.better.sqnr_db - each.sqnr_db, reverse=True)
    for each in found[:MAX_WARNINGS]:
        logger.warning("%s", str(each))  # for an object, logging would check first whether it is a mapping
    if len(found) > MAX_WARNINGS:
        logger.warning(
            'quantize: the same holds for %d more operands; frac_width = "auto" chooses fraction bits from data',
            len(found) - MAX_WARNINGS,
        )
    return found


def _poor_fits(meta: NodeMeta, new: QuantizedLayer | QuantizedCall) -> Iterator[PoorFit]:
    """Yield the operands of a node that have a poor fit; those with one format are rounded together."""
    alike: dict[object, dict[str, Integer]] = {}
    for operand, number_format in new.formats.items():
        if isinstance(number_format, Integer) and number_format.is_fixed_point:
            rounded_alike = attrgetter("width", "frac_width", "is_signed", "rounding")(number_format)
            alike.setdefault(rounded_alike, {})[operand] = number_format
    for formats in alike.values():
        samples = {operand: _sample(meta.value(operand)) for operand in formats}
        rounded = next(iter(formats.values()))(torch.cat([*samples.values(), _ENDS])).numpy()
        low, high = rounded[-2:]
        for operand, sample in samples.items():
            ours, rounded = np.split(rounded, [len(sample)])
            poor = _poor_fit(meta.node.name, operand, formats[operand], sample.numpy(), ours, (low, high))
            if poor is not None:
                yield poor


def _sample(value: Tensor | None) -> Tensor:
    if value is None or value.numel() == 0:
        return _ENDS[:0]
    flat = value.detach().flatten()
    return flat[:: -(-len(flat) // MAX_SAMPLE_SIZE)].double().cpu()


def _poor_fit(
    node: str,
    operand: str,
    number_format: Integer,
    x: Values,
    rounded: Values,
    ends: tuple[float, float],
) -> PoorFit | None:
    finite = np.isfinite(x)
    if not finite.all():
        x, rounded = x[finite], rounded[finite]
    if not len(x):
        return None
    lost = Losses.of(x, rounded, np.where(x < 0, *ends))
    saturated, to_zero = lost.num_saturated / len(x), lost.num_to_zero / max(1, lost.num_nonzero)
    if max(saturated, to_zero) <= MAX_SHARE:
        return None
    values, errors = torch.from_numpy(x), torch.from_numpy(rounded - x)
    sqnr_db = decibel(values.dot(values).item(), errors.dot(errors).item())  # numpy's product would use all cores
    better = best_of_width(values, number_format.width, number_format.is_signed)
    if better is None or better.sqnr_db < sqnr_db + MIN_GAIN_DB:
        return None
    return PoorFit(node, operand, number_format, saturated, to_zero, sqnr_db, better)
