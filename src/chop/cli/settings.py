"""From the words after `ch` to an action and its configuration: defaults < TOML file < command line."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, get_args

from chop.config import ACTIONS, PAIRS, AnyConfig, CommandConfig
from chop.options import check_options, read_options, type_hints
from chop.toml import plain, write_toml

COMMAND_LINE, DEFAULT = "command line", "default"


@dataclass(frozen=True)
class Settings:
    """The options of one action, each with the place that it comes from."""

    action: str
    values: Mapping[str, Any]  # of a grid option perhaps a list
    origins: Mapping[str, str]

    @property
    def varied(self) -> tuple[str, ...]:
        """The options that a list was given for."""
        return tuple(name for name, value in self.values.items() if name in grid_options() and _is_list(value))

    def configs(self) -> list[CommandConfig]:
        """A configuration for every combination of the lists; one, if there is none."""
        cls = ACTIONS[self.action]
        combinations = itertools.product(*(self.values[name] for name in self.varied))
        return [
            read_options(cls, {**self.values, **dict(zip(self.varied, each, strict=True))}, self.action)
            for each in combinations
        ]

    def show(self) -> str:
        """The effective options as TOML, with the origin of each."""
        values = {
            field.name: self.values[field.name] if field.name in self.values else _default(field)
            for field in fields(ACTIONS[self.action])
            if field.name != "config"
        }
        table = {name: plain(value) for name, value in values.items() if value not in (None, MISSING, {})}
        return write_toml(table, {name: self.origins.get(name, DEFAULT) for name in table})


def read_settings(action: str, texts: Mapping[str, str | list[str]]) -> Settings:
    """The options of `action`: its TOML file, if one is named, below those of the command line."""
    typed = {name: _from_text(name, text, ACTIONS[action]) for name, text in texts.items()}
    given = check_settings(ACTIONS[action], typed, COMMAND_LINE)
    file = given.get("config")
    below = read_toml(file, ACTIONS[action]) if file is not None else {}
    origins = {name: str(file) for name in below} | dict.fromkeys(given, COMMAND_LINE)
    values = {**below, **given}
    for name in ("plugins", *PAIRS):  # what comes in pieces is added to, not replaced
        if name in below and name in given:
            values[name] = below[name] | given[name] if name in PAIRS else below[name] + given[name]
            origins[name] = f"{file} and {COMMAND_LINE}"
    settings = Settings(action, values, origins)
    if settings.varied and action != "train":
        raise ValueError(f"'{settings.varied[0]}' takes one value: lists of them are for ch train")
    return settings


def read_toml(file: Path, cls: type[CommandConfig]) -> dict[str, Any]:
    """The options of `cls` in a TOML file, which may hold those of other actions too."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not valid TOML: {error}") from error
    except OSError as error:
        raise OSError(f"cannot read {file}: {error.strerror}") from error
    if "config" in table:
        raise ValueError(f"{file}: 'config' belongs on the command line: a file cannot name another")
    values = check_settings(AnyConfig, _flatten_data(table), str(file))
    if "plugins" in values:
        values["plugins"] = tuple(_beside(path, file) for path in values["plugins"])
    known = {field.name for field in fields(cls)}
    return {name: value for name, value in values.items() if name in known}


def check_settings(cls: type[CommandConfig], mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`check_options` that takes a list for a grid option."""
    lists = {key: value for key, value in mapping.items() if key in grid_options() and _is_list(value)}
    values = check_options(cls, {key: value for key, value in mapping.items() if key not in lists}, where)
    for key, items in lists.items():
        if not items:
            raise ValueError(f"{where}: '{key}' is an empty list")
        values[key] = [check_options(cls, {key: item}, where)[key] for item in items]
    return values


def grid_options() -> set[str]:
    """The options that `ch train` takes a list for."""
    return {field.name for field in fields(AnyConfig) if field.metadata["grid"]}


def _flatten_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """The `[data]` table as the options that it stands for: `path`, and the settings of the data set."""
    data = table.get("data")
    if not isinstance(data, Mapping):
        return dict(table)
    rest = {key: value for key, value in table.items() if key != "data"}
    path = {"data": data["path"]} if "path" in data else {}
    settings = {key: value for key, value in data.items() if key != "path"}
    return rest | path | ({"data_option": settings} if settings else {})


def _beside(path: Path, file: Path) -> Path:
    """A plug-in that a TOML file names: from the current folder, or else from the one of the file."""
    neighbour = (file.parent / path).resolve()
    return neighbour if not path.exists() and neighbour.exists() else path


def _from_text(name: str, text: str | list[str], cls: type[CommandConfig]) -> Any:
    """What the text of an option spells, as far as its type tells; `check_options` judges the rest."""
    if name in PAIRS:
        return dict(_pair(name, each) for each in text)
    if isinstance(text, list):
        return text
    hint = type_hints(cls)[name]
    if bool in (hint, *get_args(hint)):
        return True
    if name in grid_options() and "," in text:
        return [_number(each.strip(), hint) for each in text.split(",")]
    return _number(text, hint)


def _number(text: str, hint: object) -> object:
    for kind in (int, float):
        if kind in (hint, *get_args(hint)):
            with suppress(ValueError):
                return kind(text)
    return text


def _pair(option: str, text: str) -> tuple[str, Any]:
    """`num_rows=1000` as name and value; what is no TOML value is a string."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        kind = option.removesuffix("s").replace("_", " ")
        raise ValueError(f"{COMMAND_LINE}: a {kind} is written as name=value, got '{text}'")
    with suppress(tomllib.TOMLDecodeError):
        return name, tomllib.loads(f"x = {value}")["x"]
    return name, value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _is_list(value: object) -> bool:
    return isinstance(value, list)
