"""What a format can represent, as numbers and plots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from chop.formats.parts.base import Format

MAX_ENUMERABLE_WIDTH = 16
"""Bits per element up to which all values of a format are listed."""


@dataclass(frozen=True)
class Description:
    """Key numbers of a format at scale 1; the scale of a block or tensor multiplies all of them."""

    bits: float
    largest: float
    smallest: float
    """The smallest positive number, which is also the smallest step of most formats."""
    num_values: int

    @property
    def dynamic_range_db(self) -> float:
        return 20 * math.log10(self.largest / self.smallest)


def is_enumerable(number_format: Format) -> bool:
    """Whether a format has few enough values to list them."""
    return number_format.width <= MAX_ENUMERABLE_WIDTH


def values_of(number_format: Format) -> Tensor:
    """Return all values of one element at scale 1, sorted."""
    if not is_enumerable(number_format):
        raise ValueError(f"format '{number_format.name}' of {number_format.width} bits has too many values to list")
    values: Tensor = number_format.decode(number_format.all_codes()).unique()
    return values


def describe(number_format: Format) -> Description:
    """Return range, step and number of values of a format."""
    if not is_enumerable(number_format) or not number_format.has_codes():
        ends = number_format.quantize(torch.tensor([torch.finfo(torch.float32).max])).item()
        return Description(number_format.bits, ends, _finest(number_format), 2**number_format.width)
    values = values_of(number_format)
    positive = values[values > 0]
    return Description(number_format.bits, values[-1].item(), positive[0].item(), len(values))


def _finest(number_format: Format) -> float:
    """Return the smallest power of two that a wide format does not round to 0."""
    powers = 2.0 ** torch.arange(-149, 1, dtype=torch.float64)
    kept = powers.float()[number_format.quantize(powers.float()) > 0]
    return kept[0].item()


def text_plot(number_format: Format, columns: int = 72) -> str:
    """Return the representable values as a line of text, from the smallest to the largest; denser is darker."""
    values = values_of(number_format).double()
    low, high = values[0].item(), values[-1].item()
    positions = ((values - low) / (high - low) * (columns - 1)).round().long()
    counts = torch.bincount(positions, minlength=columns)
    shades = " .:+#"
    drawn = "".join(shades[min(len(shades) - 1, math.ceil(math.log2(int(n) + 1)))] for n in counts)
    left, right = f"{low:g}", f"{high:g}"
    return f"{drawn}\n{left}{right.rjust(columns - len(left))}"


def plot(number_format: Format, path: Path) -> None:
    """Write the representable values as ticks on a linear and on a logarithmic axis to a PNG file."""
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
        f"{number_format.name}: {len(values)} values, {number_format.bits:g} bits per element", loc="left"
    )
    logarithmic.set_xlabel("positive values, logarithmic")
    figure.savefig(path, dpi=150)
