"""Quantisation configs: from `{"name": "integer", "weight_width": 8}` to the format of each role."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from chop.formats import FORMATS, Format, parameters
from chop.nn.quantized.presets import FormatSpec, read_config
from chop.ops import Op, Operand, Role
from chop.options import read_options
from chop.registry import closest

logger = logging.getLogger(__name__)

ROLES: tuple[str, ...] = (*get_args(Role), "data_out")
UNSET = (None, "NA")
"""Values for "not set": as a name, the node is not quantised; as a parameter, the format's default applies."""


@dataclass(frozen=True)
class QuantConfig:
    """The format of each role; of `data_out` only if the config has a key for it."""

    name: str
    formats: Mapping[str, Format]
    inherited: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each role, the keys that were not given, so that the value of `data_in` is used."""
    of_convolutions: Mapping[str, Format] = field(default_factory=dict)
    """The formats of convolutions, where they differ."""

    @classmethod
    def read(cls, spec: FormatSpec, where: str) -> QuantConfig | None:
        """Return a user's config; None if the node is not quantised. `where` is the start of error messages."""
        config, of_convolutions = read_config(spec, where)
        if "name" not in config:
            raise ValueError(f"{where}: a config needs 'name', the name of a format; {closest('', FORMATS)}")
        if config["name"] in UNSET:
            return None
        names = {role: config.get(f"{role}_name", config["name"]) for role in ROLES}
        given = _parameters_by_role(config, names, where)
        formats: dict[str, Format] = {}
        inherited: dict[str, tuple[str, ...]] = {}
        for role in ROLES:
            if role == "data_out":
                if not any(key.startswith("data_out_") for key in config):
                    continue
                defaults = {}
            else:
                same_format = names[role] == names["data_in"]
                defaults = _inherited(FORMATS[names[role]], given["data_in"], given[role]) if same_format else {}
            formats[role] = _read_format(FORMATS[names[role]], defaults | given[role], f"{where}: {role}")
            inherited[role] = tuple(f"{role}_{key}" for key in defaults if key not in given[role])
        others = cls.read({**config, **of_convolutions}, where) if of_convolutions else None
        return cls(config["name"], formats, inherited, {} if others is None else others.formats)

    def for_op(self, op: Op, present: Mapping[str, Operand]) -> dict[str, Format]:
        """Return the format of each operand that is `present` in a call of `op`, with the operand's dimensions."""
        formats = self.of_convolutions if self.of_convolutions and op.name.startswith("conv") else self.formats
        return {
            name: formats[operand.role].for_operand(operand.reduce_dim, operand.channel_dim)
            for name, operand in present.items()
            if operand.role is not None
        } | ({"data_out_0": formats["data_out"]} if "data_out" in formats else {})

    def log_inherited(self, roles: set[str], where: str) -> None:
        """Log which keys of these roles were not given and are inherited from `data_in`."""
        keys = [key for role in sorted(roles) for key in self.inherited.get(role, ())]
        if keys:
            logger.info("%s: %s not given; the parameters of data_in are used", where, ", ".join(keys))


def _read_format(cls: type[Format], given: Mapping[str, Any], where: str) -> Format:
    for key, value in given.items():
        if key.endswith("width") and isinstance(value, list | tuple):
            raise ValueError(
                f"{where}: '{key}' takes one number, got {value}; 'ch sweep' compares several widths, and "
                "'ch search' chooses one for each layer"
            )
    return read_options(cls, given, where)


def _inherited(cls: type[Format], of_data: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a role with `own` parameters takes from `data_in`: widths and kinds, not signs or dimensions."""
    metadata = {parameter.name: parameter.metadata for parameter in parameters(cls)}
    return {
        key: value
        for key, value in of_data.items()
        if metadata[key]["inherited"] and metadata[key]["follows"] not in own
    }


def _parameters_by_role(
    config: Mapping[str, Any], names: Mapping[str, str], where: str
) -> dict[str, dict[str, Any]]:
    """Return the parameters that are given for each role, by their names in the role's format."""
    known: dict[str, tuple[str, str | None]] = {f"{role}_name": (role, None) for role in ROLES}
    for role in ROLES:
        known |= {f"{role}_{p.name}": (role, p.name) for p in parameters(FORMATS[names[role]])}
    given: dict[str, dict[str, Any]] = {role: {} for role in ROLES}
    for key, value in config.items():
        if key == "name":
            continue
        if key not in known:
            raise ValueError(f"{where}: format '{config['name']}' has no parameter '{key}'; {closest(key, known)}")
        role, parameter = known[key]
        if parameter is not None:
            given[role][parameter] = None if value == "NA" else value
    return given
