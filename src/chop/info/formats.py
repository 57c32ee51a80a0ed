"""Number formats: their parameters, and the values of each with default parameters."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from chop.formats import FORMATS, Format
from chop.formats.parts.base import parameters
from chop.formats.parts.describe import describe, is_enumerable, plot, text_plot
from chop.info.page import Kind, Listing, Page, documentation, summary
from chop.info.parameters import field_table
from chop.nn.quantized.config import ROLES


def format_table() -> Listing:
    """Return the table of all formats."""
    rows = [
        (name, number_format().bits, [field.name for field in parameters(number_format)], summary(number_format))
        for name, number_format in sorted(FORMATS.items())
    ]
    return Listing(("name", "bits", "parameters", "what it is"), rows)


def format_page(name: str) -> Page:
    """Return the page of a format."""
    cls = FORMATS[name]
    return Page(
        title=f"format {name}",
        text=documentation(cls),
        facts=_facts(cls()),
        drawing=text_plot(cls()) if cls().has_codes() and is_enumerable(cls()) else "",
        tables={"parameters (prefixed with the operand in a config: weight_NAME)": field_table(cls)},
    )


def _facts(number_format: Format) -> dict[str, object]:
    """Return properties of a format with default parameters."""
    facts: dict[str, object] = {
        "bits per element": f"{number_format.bits:g} (this and all below with default parameters)",
        "precision": f"{number_format.precision} in the metadata",
        "floating point": number_format.floating_point,
        "operands": [f"{role}_..." for role in ROLES],
    }
    if not number_format.has_codes():
        return facts | _measured_range(number_format)
    found = describe(number_format)
    return facts | {
        "values": f"{found.num_values} at scale 1",
        "largest": f"{found.largest:g}",
        "smallest above 0": f"{found.smallest:g}",
        "dynamic range": f"{found.dynamic_range_db:.1f} dB",
    }


def plot_format(name: str, path: Path) -> None:
    """Write a plot of the values of a format to a PNG file."""
    plot(FORMATS[name](), path)


def _measured_range(number_format: Format) -> dict[str, object]:
    """Return the range of a format, found by rounding numbers of every magnitude one by one."""
    top = torch.finfo(torch.float32).max
    probes = [sign * each for sign in (-1, 1) for each in (*(2.0**k for k in range(-149, 128)), top)]
    values = [number_format.quantize(torch.tensor([probe])).item() for probe in probes]
    finite = [value for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    facts: dict[str, object] = {"range": f"{min(finite):g} to {max(finite):g}"}
    return facts | ({"smallest above 0": f"{min(positive):g}"} if positive else {})


KIND = Kind(format_table, format_page)
