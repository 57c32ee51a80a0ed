"""What a format can represent, in numbers and in pictures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from chop.formats.base import Format

_ENUMERABLE = 16
"""Formats up to so many bits are looked at code by code."""


@dataclass(frozen=True)
class Description:
    """Numbers of a format at scale 1: a block's or tensor's scale shifts all of them alike."""

    bits: float
    largest: float
    smallest: float
    """The smallest positive number, which is also the finest step of most formats."""
    num_values: int

    @property
    def dynamic_range_db(self) -> float:
        return 20 * math.log10(self.largest / self.smallest)


def is_enumerable(number_format: Format) -> bool:
    return number_format.width <= _ENUMERABLE


def values_of(number_format: Format) -> Tensor:
    """All numbers that one element can be, sorted, at scale 1."""
    if not is_enumerable(number_format):
        raise ValueError(f"format '{number_format.name}' of {number_format.width} bits has too many values to list")
    values: Tensor = number_format.decode(number_format.all_codes()).unique()
    return values


def describe(number_format: Format) -> Description:
    if not is_enumerable(number_format):
        ends = number_format.quantize(torch.tensor([torch.finfo(torch.float32).max])).item()
        return Description(number_format.bits, ends, _finest(number_format), 2**number_format.width)
    values = values_of(number_format)
    positive = values[values > 0]
    return Description(number_format.bits, values[-1].item(), positive[0].item(), len(values))


def _finest(number_format: Format) -> float:
    """The smallest power of two that a wide format tells from 0."""
    powers = 2.0 ** torch.arange(-149, 1, dtype=torch.float64)
    kept = powers.float()[number_format.quantize(powers.float()) > 0]
    return kept[0].item()


def line(number_format: Format, columns: int = 72) -> str:
    """The representable values on a line of text, from the most negative to the largest; darker is denser."""
    values = values_of(number_format).double()
    low, high = values[0].item(), values[-1].item()
    places = ((values - low) / (high - low) * (columns - 1)).round().long()
    counts = torch.bincount(places, minlength=columns)
    shades = " .:+#"
    drawn = "".join(shades[min(len(shades) - 1, math.ceil(math.log2(int(n) + 1)))] for n in counts)
    left, right = f"{low:g}", f"{high:g}"
    return f"{drawn}\n{left}{right.rjust(columns - len(left))}"


def picture(number_format: Format, path: Path) -> None:
    """The representable values as ticks on a line and on a logarithmic one, in a PNG."""
    from matplotlib.figure import Figure

    values = values_of(number_format)
    positive = values[values > 0]
    figure = Figure(figsize=(9, 2.6), layout="constrained")
    plain, logarithmic = figure.subplots(2, 1)
    for axes, ticks in ((plain, values), (logarithmic, positive)):
        axes.vlines(ticks.numpy(), 0, 1, linewidth=0.8)
        axes.set_yticks([])
        axes.spines[["left", "right", "top"]].set_visible(False)
    logarithmic.set_xscale("log", base=2)
    plain.set_title(
        f"{number_format.name}: {len(values)} values, {number_format.bits:g} bits an element", loc="left"
    )
    logarithmic.set_xlabel("positive values, logarithmic")
    figure.savefig(path, dpi=150)
