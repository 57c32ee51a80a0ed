"""What formats make of values that are not finite."""

from __future__ import annotations

import math

import torch

from chop.formats import FORMATS, Format
from chop.info.page import Listing


def special_value_table() -> Listing:
    """Return what each format makes of NaN and of infinities, with default parameters in float32."""
    rows = [(name, *_special_values(cls())) for name, cls in sorted(FORMATS.items())]
    return Listing(("name", "NaN", "code of NaN", "infinity", "[1, infinity]"), rows)


def _special_values(number_format: Format) -> tuple[str, ...]:
    def rounded(*values: float) -> str:
        return ", ".join(f"{each:.4g}" for each in number_format.quantize(torch.tensor(values)).tolist())

    try:
        number_format.encode(torch.tensor([math.nan]))
        code = "the pattern of float32"
    except ValueError:
        code = "an error"
    return rounded(math.nan), code, rounded(math.inf), f"[{rounded(1.0, math.inf)}]"
