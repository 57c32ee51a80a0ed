"""A configuration as the options of `ch transform`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chop.config import SearchConfig, TransformConfig, common_options
from chop.nn.quantized.config import UNSET
from chop.runs.folder import with_absolute_paths
from chop.searching.space import Configuration, Unit
from chop.searching.space.space import METHOD, MODEL, NEAREST


def transform_config(config: SearchConfig, units: Iterable[Unit], configuration: Configuration) -> TransformConfig:
    """Return the options of `ch transform` that quantise these units, and run the method, of a configuration."""
    by_node = {
        meta.node.name: {"config": _without_none(configuration[unit.name])}
        for unit in units
        if unit.name in configuration and configuration[unit.name]["name"] not in UNSET
        for meta in unit.metas
    }
    options = common_options(with_absolute_paths(config)) | {"name": None}
    if MODEL in configuration:
        options["model_options"] = model_options(config, configuration)
    passes: dict[str, dict[str, Any]] = {"quantize": {"by": "name", **by_node}} if by_node else {}
    method = configuration[METHOD]["method"] if METHOD in configuration else NEAREST
    if by_node and method != NEAREST:
        passes[method] = {}
    return TransformConfig(**options, passes=passes)


def model_options(config: SearchConfig, configuration: Configuration) -> dict[str, Any]:
    """Return the options that the model is built with in a configuration."""
    chosen = {
        key: list(value) if isinstance(value, tuple) else value for key, value in configuration[MODEL].items()
    }
    return {**config.model_options, **chosen}


def _without_none(config: Mapping[str, Any]) -> dict[str, Any]:
    """Replace None, which TOML cannot express, with "NA"."""
    return {key: "NA" if value is None else value for key, value in config.items()}
