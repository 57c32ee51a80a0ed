"""The options of an action, from defaults, a TOML file and the command line; each overrides those before it."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from chop.config import (
    ACTIONS,
    COMMAND_LINE_ONLY,
    PAIRS,
    ActionConfig,
    AnyConfig,
    CommandConfig,
    TrainConfig,
    TrainGrid,
)
from chop.files import check_regular
from chop.options import check_options, read_options, type_hints
from chop.toml import to_toml_value, write_toml

COMMAND_LINE, DEFAULT = "command line", "default"
INPUTS = {"model": "model", "dataset": "data set"}


@dataclass(frozen=True)
class Settings:
    """The options of one action and where each value comes from."""

    action: str
    values: Mapping[str, Any]  # a grid option may have a list
    origins: Mapping[str, str]
    given: Mapping[str, Any] = field(default_factory=dict)  # on the command line

    @property
    def varied(self) -> tuple[str, ...]:
        """The options that have a list of values."""
        return tuple(name for name, value in self.values.items() if name in grid_options() and _is_list(value))

    def configs(self) -> list[CommandConfig]:
        """Return a configuration per combination of the listed values; one if there are no lists."""
        cls = ACTIONS[self.action]
        self._check_inputs(cls)
        combinations = itertools.product(*(self.values[name] for name in self.varied))
        return [
            read_options(cls, {**self.values, **dict(zip(self.varied, each, strict=True))}, self.action)
            for each in combinations
        ]

    def _check_inputs(self, cls: type[CommandConfig]) -> None:
        """Raise an error if the model or the data set is missing."""
        missing = [name for name in INPUTS if issubclass(cls, ActionConfig) and name not in self.values]
        if missing:
            kinds = " and a ".join(INPUTS[name] for name in missing)
            keys, lists = (" and ".join(form.format(name) for name in missing) for form in ("'{}'", "ch info {}s"))
            usage = f"ch {self.action} MODEL DATASET, or --config FILE with {keys}"
            raise ValueError(f"ch {self.action} needs a {kinds}: {usage}; see {lists}")

    def config(self) -> CommandConfig | TrainGrid:
        """Return what the action is called with: its configuration, or a grid if there are lists."""
        configs = self.configs()
        if not self.varied:
            return configs[0]
        return TrainGrid([each for each in configs if isinstance(each, TrainConfig)], self.varied)

    def show(self) -> str:
        """Return the effective options as TOML, each with a comment that says where it comes from."""
        values = {
            each.name: self.values[each.name] if each.name in self.values else _default(each)
            for each in fields(ACTIONS[self.action])
            if each.name not in COMMAND_LINE_ONLY
        }
        table = {name: to_toml_value(value) for name, value in values.items() if value not in (None, MISSING, {})}
        return write_toml(table, {name: self.origins.get(name, DEFAULT) for name in table})


def read_settings(action: str, texts: Mapping[str, str | list[str]], replaced: Sequence[str] = ()) -> Settings:
    """Return the options of `action` from the command line and from the TOML file it names, if any.

    `replaced` are keys of the file with new values, such as `transform.evaluate=false`.
    """
    typed = {name: _from_text(name, text, ACTIONS[action]) for name, text in texts.items()}
    given = check_settings(ACTIONS[action], typed, COMMAND_LINE)
    file = given.get("config")
    table = read_table(file) if file is not None else {}
    where = COMMAND_LINE if file is None else str(file)
    for text in replaced:
        table = _replace(table, *_pair("set", text))
    in_file = read_table_options(table, ACTIONS[action], where, file)
    origins = dict.fromkeys(in_file, where) | {text.partition(".")[0]: f"{where} and --set" for text in replaced}
    origins |= dict.fromkeys(given, COMMAND_LINE)
    values = {**in_file, **given}
    for name in ("plugins", *PAIRS):  # repeatable options are combined, not replaced
        if name in in_file and name in given:
            values[name] = in_file[name] | given[name] if name in PAIRS else in_file[name] + given[name]
            origins[name] = f"{file} and {COMMAND_LINE}"
    settings = Settings(action, values, origins, given)
    if settings.varied and action != "train":
        raise ValueError(f"'{settings.varied[0]}' takes a single value: only ch train accepts a list")
    return settings


def read_config_file(file: Path, cls: type[CommandConfig]) -> dict[str, Any]:
    """Return the options of `cls` in a TOML file, which may also hold options of other actions."""
    return read_table_options(read_table(file), cls, str(file), file)


def read_table(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file with options."""
    check_regular(file)
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{file}: not valid TOML: its values are nested too deeply") from error
    except OSError as error:
        raise OSError(f"cannot read {file}: {error.strerror}") from error


def read_table_options(
    table: Mapping[str, Any], cls: type[CommandConfig], where: str, file: Path | None
) -> dict[str, Any]:
    """Return the options of `cls` in the table of a TOML file; `where` begins error messages."""
    for name in COMMAND_LINE_ONLY:
        if name in table:
            raise ValueError(f"{where}: '{name}' can only be given on the command line")
    values = check_settings(AnyConfig, _flatten_data(table), where)
    if "plugins" in values and file is not None:
        values["plugins"] = tuple(_resolve_plugin(path, file) for path in values["plugins"])
    known = {each.name for each in fields(cls)}
    return {name: value for name, value in values.items() if name in known}


def check_settings(cls: type[CommandConfig], mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check options like `check_options`, but accept a list for a grid option."""
    lists = {key: value for key, value in mapping.items() if key in grid_options() and _is_list(value)}
    values = check_options(cls, {key: value for key, value in mapping.items() if key not in lists}, where)
    for key, items in lists.items():
        if not items:
            raise ValueError(f"{where}: '{key}' is an empty list")
        values[key] = [check_options(cls, {key: item}, where)[key] for item in items]
    return values


def grid_options() -> set[str]:
    """Return the options for which `ch train` accepts a list."""
    return {each.name for each in fields(AnyConfig) if each.metadata["grid"]}


def _flatten_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the `[data]` table by options: its `path` becomes `data`, its other keys `data_option`."""
    data = table.get("data")
    if not isinstance(data, Mapping):
        return dict(table)
    rest = {key: value for key, value in table.items() if key != "data"}
    path = {"data": data["path"]} if "path" in data else {}
    options = {key: value for key, value in data.items() if key != "path"}
    return rest | path | ({"data_option": options} if options else {})


def _resolve_plugin(path: Path, file: Path) -> Path:
    """Resolve the path of a plug-in in a TOML file: from the current folder, else from the folder of the file."""
    neighbour = (file.parent / path).resolve()
    return neighbour if not path.exists() and neighbour.exists() else path


def _from_text(name: str, text: str | list[str], cls: type[CommandConfig]) -> Any:
    """Convert the text of an option to the type of the option if it fits; `check_options` reports what does not."""
    if name in PAIRS:
        return dict(_pair(name, each or "--") for each in text)  # argparse drops the value "--"
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
    """Split `num_rows=1000` into name and value; a value that is not valid TOML is a string."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        kind = "--set" if option == "set" else f"a {option.removesuffix('s').replace('_', ' ')}"
        raise ValueError(f"{COMMAND_LINE}: {kind} must have the form name=value, got '{text}'")
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        return name, tomllib.loads(f"x = {value}")["x"]
    return name, value


def _replace(table: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a nested table with a new value under the keys `path`, which are separated by dots."""
    key, dot, rest = path.partition(".")
    inner = table.get(key, {})
    if dot and not isinstance(inner, Mapping):
        raise ValueError(f"{COMMAND_LINE}: --set {path}: '{key}' is a value, not a table")
    return {**table, key: _replace(inner, rest, value) if dot else value}


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _is_list(value: object) -> bool:
    return isinstance(value, list)
