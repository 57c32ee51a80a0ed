"""Presets, such as `int8` or `nvfp4`: quantisation configs that people know by a name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from chop.formats import FORMATS, Format, parameters
from chop.formats.parts.spelling import read_format, spelled_name
from chop.options import read_options
from chop.registry import Registry, UnknownNameError, closest

FormatSpec = str | Format | Mapping[str, Any]
"""A preset, a format with parameters as text or as an object, or a quantisation config."""


@dataclass(frozen=True)
class Preset:
    """A quantisation config with a name."""

    meaning: str
    config: Mapping[str, Any]
    convolution: Mapping[str, Any] = field(default_factory=dict)
    """The keys of the config that differ for convolutions."""
    calibrate: bool = False
    """Whether scales of activations are fixed on data."""


PRESETS: Registry[Preset] = Registry("preset")


def register_preset(name: str, config: Mapping[str, Any], meaning: str = "", **options: Any) -> None:
    """Add a preset, which has `config` and the other fields of `Preset`, to those that every config can name."""
    given = {"meaning": meaning, "config": config, **options}
    PRESETS.add(name, read_options(Preset, given, f"preset '{name}'"))


for _name, _table in tomllib.loads(files(__package__).joinpath("presets.toml").read_text("utf-8")).items():
    register_preset(_name, **_table)


def read_config(spec: FormatSpec, where: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a config as a dict, and the keys that differ for convolutions.

    A format rounds the inputs and the weights; biases stay in float. A name that a preset and a format share is the
    preset; with brackets, as in `fp8()`, it is the format.
    """
    if isinstance(spec, Mapping):
        return spec, {}
    if isinstance(spec, str) and spec in PRESETS:
        return PRESETS[spec].config, PRESETS[spec].convolution
    if isinstance(spec, str):
        name = spelled_name(spec)
        if name not in FORMATS:
            known = closest(name, [*PRESETS, *FORMATS])
            raise UnknownNameError(f"{where}: '{name}' is neither a preset nor a format; {known}")
        spec = read_format(spec, where)
    if not isinstance(spec, Format):
        raise ValueError(f"{where}: must be a preset, a format or a dict, got {type(spec).__name__}")
    given = {field.name: getattr(spec, field.name) for field in parameters(type(spec))}
    by_role = {f"{role}_{key}": value for role in ("data_in", "weight") for key, value in given.items()}
    return {"name": spec.name, **by_role, "bias_name": "float"}, {}
