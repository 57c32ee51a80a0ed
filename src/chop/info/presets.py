"""Presets: quantisation configs with a name."""

from __future__ import annotations

from chop.info.page import Kind, Listing, Page
from chop.nn.quantized import PRESETS, QuantConfig
from chop.toml import write_toml


def preset_table() -> Listing:
    """Return the table of all presets."""
    return Listing(("name", "what it means"), [(name, preset.meaning) for name, preset in PRESETS.items()])


def preset_page(name: str) -> Page:
    """Return the page of a preset, with its config as TOML."""
    preset, read = PRESETS[name], QuantConfig.read(name, f"preset '{name}'")
    assert read is not None, "a preset has formats"
    formats = {f"format of {role}": str(number_format) for role, number_format in read.formats.items()}
    others = [f"{key} = {value}" for key, value in preset.convolution.items()]
    table = write_toml({"passes": {"quantize": {"by": "type", "layers": {"config": preset.config}}}})
    return Page(
        title=f"preset {name}",
        text=preset.meaning,
        facts={**formats, "differs for convolutions": others, "calibrated on data": preset.calibrate},
        tables={},
        drawing=f"to change it:\n{table.rstrip()}",
    )


KIND = Kind(preset_table, preset_page)
