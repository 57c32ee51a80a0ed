"""A configuration as the options of `ch transform`."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable
from typing import Any

from chop.config import SearchConfig, TransformConfig
from chop.display.launcher import launcher
from chop.nn.quantized.config import UNSET
from chop.runs import RunFolder
from chop.searching.space import Configuration, Unit
from chop.searching.space.space import METHOD, MODEL, NEAREST
from chop.transforming.pipeline import as_transform


def transform_config(config: SearchConfig, units: Iterable[Unit], configuration: Configuration) -> TransformConfig:
    """Return the options of `ch transform` that quantise these units, and run the method, of a configuration."""
    by_node = {
        # TOML cannot express None.
        meta.node.name: {"config": {k: "NA" if v is None else v for k, v in configuration[unit.name].items()}}
        for unit in units
        if unit.name in configuration and configuration[unit.name]["name"] not in UNSET
        for meta in unit.metas
    }
    passes: dict[str, dict[str, Any]] = {"quantize": {"by": "name", **by_node}} if by_node else {}
    method = configuration[METHOD]["method"] if METHOD in configuration else NEAREST
    if by_node and method != NEAREST:
        passes[method] = {}
    built = {"model_options": model_options(config, configuration)} if MODEL in configuration else {}
    return as_transform(config, passes, **built)


def command_of_best(folder: RunFolder, number: int, metrics: Container[str]) -> str:
    """Return the command that makes the model of the best trial; weights that it trained are trained again."""
    if "epochs" in metrics:  # ch transform does not train
        return f"{launcher()} search --config {shlex.quote(str(folder.config))} --apply {number}"
    return f"{launcher()} transform --config {shlex.quote(str(folder.best_config))}"


def model_options(config: SearchConfig, configuration: Configuration) -> dict[str, Any]:
    """Return the options that the model is built with in a configuration."""
    chosen = {
        key: list(value) if isinstance(value, tuple) else value for key, value in configuration[MODEL].items()
    }
    return {**config.model_options, **chosen}
