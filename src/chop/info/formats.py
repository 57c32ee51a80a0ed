"""Number formats: their parameters, and what their values at the defaults are like."""

from __future__ import annotations

import math
from pathlib import Path

import torch

from chop.formats import FORMATS, Format
from chop.formats.describe import describe, is_enumerable, line, picture
from chop.info.page import Page, Table, documentation, summary
from chop.info.parameters import field_table
from chop.nn.quantized.config import ROLES


def format_table() -> Table:
    rows = [
        (name, number_format().bits, [row[0] for row in field_table(number_format).rows], summary(number_format))
        for name, number_format in FORMATS.items()
    ]
    return Table(("name", "bits", "parameters", "what it is"), rows)


def format_page(name: str) -> Page:
    cls = FORMATS[name]
    return Page(
        title=f"format {name}",
        text=documentation(cls),
        facts=_facts(cls()),
        drawing=_drawing(cls()),
        tables={"parameters; in a config with the operand in front, as weight_NAME": field_table(cls)},
    )


def _facts(number_format: Format) -> dict[str, object]:
    """What is known of the format with its defaults."""
    facts: dict[str, object] = {
        "bits an element": f"{number_format.bits:g} at the defaults, as all below",
        "precision": f"{number_format.precision} in the metadata",
        "floating point": number_format.floating_point,
        "operands": [f"{role}_..." for role in ROLES],
    }
    return facts | (_numbers(number_format) if _has_codes(number_format) else _reach(number_format))


def _has_codes(number_format: Format) -> bool:
    return type(number_format).decode is not Format.decode


def _numbers(number_format: Format) -> dict[str, object]:
    """What its codes say, of an element whose block or tensor has the scale 1."""
    found = describe(number_format)
    return {
        "values": f"{found.num_values} at scale 1",
        "largest": f"{found.largest:g}",
        "smallest above 0": f"{found.smallest:g}",
        "dynamic range": f"{found.dynamic_range_db:.1f} dB",
    }


def _drawing(number_format: Format) -> str:
    """The values on a line, where they are few enough to be listed."""
    return line(number_format) if _has_codes(number_format) and is_enumerable(number_format) else ""


def draw_format(name: str, path: Path) -> None:
    """A PNG of the values of a format."""
    picture(FORMATS[name](), path)


def _reach(number_format: Format) -> dict[str, object]:
    """The ends of a format, found by rounding numbers of every magnitude, each by itself."""
    top = torch.finfo(torch.float32).max
    probes = [sign * each for sign in (-1, 1) for each in (*(2.0**k for k in range(-149, 128)), top)]
    values = [number_format.quantize(torch.tensor([probe])).item() for probe in probes]
    finite = [value for value in values if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    facts: dict[str, object] = {"range": f"{min(finite):g} to {max(finite):g}"}
    return facts | ({"smallest above 0": f"{min(positive):g}"} if positive else {})
