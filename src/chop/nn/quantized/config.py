"""From a config such as `{"name": "integer", "weight_width": 8}` to the format of each role, and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from chop.formats import FORMATS, Format, parameters
from chop.ops import Op, Operand, Role
from chop.options import read_options
from chop.registry import closest

logger = logging.getLogger(__name__)

ROLES: tuple[str, ...] = (*get_args(Role), "data_out")
UNSET = (None, "NA")
"""How configs write "nothing here": a node to leave alone, a parameter at its own default."""


@dataclass(frozen=True)
class QuantConfig:
    """The format of each role. `data_out` is there only if it was asked for."""

    name: str
    formats: Mapping[str, Format]
    borrowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each role, the keys that it lacked and took from `data_in`."""

    @classmethod
    def read(cls, config: Mapping[str, Any], where: str) -> QuantConfig | None:
        """Read a user's config; None where it leaves the node alone. `where` begins error messages."""
        if "name" not in config:
            raise ValueError(f"{where}: a config needs 'name', the format; {closest('', FORMATS)}")
        if config["name"] in UNSET:
            return None
        names = {role: config.get(f"{role}_name", config["name"]) for role in ROLES}
        given = _parameters_by_role(config, names, where)
        formats: dict[str, Format] = {}
        borrowed: dict[str, tuple[str, ...]] = {}
        for role in ROLES:
            if role == "data_out":
                if not any(key.startswith("data_out_") for key in config):
                    continue
                lent = {}
            else:
                lent = _lendable(names["data_in"], given["data_in"]) if names[role] == names["data_in"] else {}
            formats[role] = read_options(FORMATS[names[role]], lent | given[role], f"{where}: {role}")
            borrowed[role] = tuple(f"{role}_{key}" for key in lent if key not in given[role])
        return cls(config["name"], formats, borrowed)

    def for_op(self, op: Op, present: Mapping[str, Operand]) -> dict[str, Format]:
        """The format of each operand that is `present` in a call of `op`, put on that operand's dimensions."""
        return {
            name: self.formats[operand.role].placed(operand.reduce_dim, operand.channel_dim)
            for name, operand in present.items()
            if operand.role is not None
        } | ({"data_out_0": self.formats["data_out"]} if "data_out" in self.formats else {})

    def note_borrowed(self, roles: set[str], where: str) -> None:
        """Say once in the log which keys were missing for operands that exist."""
        keys = [key for role in sorted(roles) for key in self.borrowed.get(role, ())]
        if keys:
            logger.info("%s: no %s; the data_in settings are used", where, ", ".join(keys))

    def to_dict(self) -> dict[str, Any]:
        """The config that `read` turns into this, with every parameter spelled out; TOML can hold it."""
        config: dict[str, Any] = {"name": self.name}
        for role, number_format in self.formats.items():
            if number_format.name != self.name:
                config[f"{role}_name"] = number_format.name
            for parameter in parameters(type(number_format)):
                value = getattr(number_format, parameter.name)
                config[f"{role}_{parameter.name}"] = "NA" if value is None else value
        return config


def _lendable(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What other roles may take from `data_in`: not its dimensions, theirs are others."""
    own = {parameter.name for parameter in parameters(FORMATS[name]) if parameter.metadata["place"] is not None}
    return {key: value for key, value in given.items() if key not in own}


def _parameters_by_role(
    config: Mapping[str, Any], names: Mapping[str, str], where: str
) -> dict[str, dict[str, Any]]:
    """What is given for each role, by the names that the role's format has for its parameters."""
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
