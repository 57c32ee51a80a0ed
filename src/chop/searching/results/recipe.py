"""A configuration as what `ch transform` and `ch train` are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from chop.config import ActionConfig, SearchConfig, TransformConfig
from chop.nn.quantized.config import UNSET
from chop.runs.folder import with_absolute_paths
from chop.searching.space import Unit
from chop.searching.space.space import MODEL, Configs
from chop.toml import plain, to_table, write_toml


def transform_config(config: SearchConfig, units: Iterable[Unit], configs: Configs) -> TransformConfig:
    """What `ch transform` is to do for these configurations of these units."""
    by_node = {
        meta.node.name: {"config": _given(configs[unit.name])}
        for unit in units
        if unit.name in configs and configs[unit.name]["name"] not in UNSET
        for meta in unit.metas
    }
    common = common_options(with_absolute_paths(config))
    if MODEL in configs:
        common["model_options"] = model_options(config, configs)
    return TransformConfig(**common, passes={"quantize": {"by": "name", **by_node}} if by_node else {})


def transform_toml(
    config: TransformConfig, comments: Sequence[str] = (), training: Mapping[str, Any] | None = None
) -> str:
    """The same as the text of a TOML file, with options of a training beside it; defaults are left out."""
    defaults = {each.name: plain(each.default) for each in fields(config) if each.default is not MISSING}
    table = {key: value for key, value in to_table(config).items() if value != defaults.get(key)}
    kept = {key: value for key, value in table.items() if key not in ("config", "transform") and value != {}}
    return "".join(f"# {line}\n" for line in comments) + write_toml({**(training or {}), **kept})


def model_options(config: SearchConfig, configs: Configs) -> dict[str, Any]:
    """What the builder of the model is given in a configuration."""
    chosen = {key: list(value) if isinstance(value, tuple) else value for key, value in configs[MODEL].items()}
    return {**config.model_options, **chosen}


def common_options(config: ActionConfig) -> dict[str, Any]:
    """The options that all actions have."""
    return {each.name: getattr(config, each.name) for each in fields(ActionConfig)}


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: "NA" if value is None else value for key, value in config.items()}
