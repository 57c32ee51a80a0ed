"""The options of an action: defaults, then a TOML file, then what is given; each overrides those before it."""

from __future__ import annotations

import itertools
import logging
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from chop.config.actions import ACTIONS, AnyConfig
from chop.config.base import COMMAND_LINE_ONLY, PAIRS, ActionConfig, CommandConfig
from chop.config.train import TrainConfig, TrainGrid
from chop.display.launcher import option_name
from chop.files import check_regular
from chop.options import check_options, read_options
from chop.plugins import load_plugin
from chop.toml import to_table, to_toml_value, write_toml
from chop.trusted_files import check_trusted, named_files, trust

logger = logging.getLogger(__name__)

COMMAND_LINE, DEFAULT = "command line", "default"
NOT_KEPT = (*COMMAND_LINE_ONLY, "resume")
"""Options that repeating a run does not need."""
OF_SESSION = ("log_level", "no_warnings", "debug")
INPUTS = {"model": "model", "dataset": "data set"}


@dataclass(frozen=True)
class Settings:
    """The options of one action and where each value comes from."""

    action: str
    values: Mapping[str, Any]  # a grid option may have a list
    origins: Mapping[str, str]
    given: Mapping[str, Any] = field(default_factory=dict)  # on the command line
    in_file: Mapping[str, Any] = field(default_factory=dict)  # also those of other actions
    replaced: Sequence[str] = ()  # options of the file with new values
    caller: str = ""  # the Python function that is called, if none of the command line
    file: Path | None = None

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
            read_options(
                cls, {**self.values, **dict(zip(self.varied, each, strict=True))}, self.caller or self.action
            )
            for each in combinations
        ]

    def _check_inputs(self, cls: type[CommandConfig]) -> None:
        """Raise an error if the model or the data set is missing."""
        if self.caller == str(self.file):  # a run that is opened again: its file is corrupt
            return
        missing = [name for name in INPUTS if issubclass(cls, ActionConfig) and name not in self.values]
        if missing:
            kinds = " and a ".join(INPUTS[name] for name in missing)
            keys, lists = (" and ".join(form.format(name) for name in missing) for form in ("'{}'", "ch info {}s"))
            call, usage = f"ch {self.action}", f"ch {self.action} MODEL DATASET, or --config FILE"
            if self.caller:
                call, usage = self.caller, f"{self.caller}(model, dataset), or config=FILE"
            raise ValueError(f"{call} needs a {kinds}: {usage} with {keys}; see {lists}")

    def check_lists(self) -> None:
        """Raise an error for a list of values, unless it is given to `ch train`."""
        if self.varied and self.caller:
            name, values = self.varied[0], list(self.values[self.varied[0]])
            raise ValueError(
                f"{self.caller}: '{name}' takes one value; for several, call it in a loop: "
                f"[{self.caller}(..., {name}=value) for value in {values}]"
            )
        if self.varied and self.action != "train":
            raise ValueError(f"'{self.varied[0]}' takes a single value: only ch train accepts a list")

    def prepare(self) -> None:
        """Load plug-ins, if their files and those of model and data may run; log the options that are not used.

        Files that the caller names are remembered; those that only the TOML file names must be known.
        """
        for path in self.given.get("trust", ()):
            if not path.is_file():
                raise ValueError(f"the file '{path}' of {option_name('trust')} does not exist")
        named = named_files(self.given)
        trust(*named)
        if self.file is not None:
            check_trusted([each for each in named_files(self.values) if each not in named], self.file)
        for plugin in self.values.get("plugins", ()):
            load_plugin(plugin)
        if self.caller != str(self.file) and (unused := self.unused()):
            caller = self.caller or f"ch {self.action}"
            logger.info("%s does not use these keys of the file: %s", caller, ", ".join(unused))

    def config(self) -> CommandConfig | TrainGrid:
        """Return what the action is called with: its configuration, or a grid if there are lists."""
        configs = self.configs()
        if not self.varied:
            return configs[0]
        return TrainGrid([each for each in configs if isinstance(each, TrainConfig)], self.varied)

    def unused(self) -> list[str]:
        """Return the options of the file that the action does not use; one given for it alone is an error."""
        config, values = self.configs()[0], {**self.in_file, **self.given}
        defaults = {each.name: _default(each) for each in fields(AnyConfig)}
        known, reasons = {each.name for each in fields(config)}, config.without_effect()
        if isinstance(config, TrainConfig) and not self.varied:
            reasons["workers"] = "without a list of values, such as the option seed=0,1,2"
        unused = [name for name in values if name not in known or name in reasons]
        unused = [name for name in unused if values[name] != defaults.get(name)]
        for name in unused:
            if name in self.given or name in self.replaced:
                where = self.caller or COMMAND_LINE
                raise ValueError(f"{where}: {option_name(name)} has no effect {reasons[name]}")
        return unused

    def show(self) -> str:
        """Return the effective options as TOML, each with a comment that says where it comes from."""
        values = {
            each.name: self.values[each.name] if each.name in self.values else _default(each)
            for each in fields(ACTIONS[self.action])
            if each.name not in COMMAND_LINE_ONLY
        }
        table = {name: to_toml_value(value) for name, value in values.items() if value not in (None, MISSING, {})}
        return write_toml(table, {name: self.origins.get(name, DEFAULT) for name in table})


def read_settings(
    action: str,
    given: Mapping[str, Any],
    replaced: Sequence[tuple[str, Any]] = (),
    *,
    file: Path | None = None,
    table: Mapping[str, Any] | None = None,
    caller: str = "",
) -> Settings:
    """Return the options of `action` that are given, and those of a TOML file: `file`, or the option `config`.

    `table` is the content of the file, if it was read before.
    `replaced` are keys of the file with new values, such as `("transform.evaluate", False)`. `caller` is the Python
    function that is called, if none of the command line.
    """
    by_hand = caller or COMMAND_LINE
    given = check_settings(ACTIONS[action], given, by_hand)
    file = file or given.get("config")
    if table is None:
        table = {} if file is None else read_table(file)
    where = by_hand if file is None else str(file)
    names = []
    for path, value in replaced:
        table = _replace(table, path, value)
        names += _read_replaced(path, value, action, given)
    all_in_file = _read_table_options(table, where, file)
    known = {each.name for each in fields(ACTIONS[action])}
    in_file = {name: value for name, value in all_in_file.items() if name in known}
    origins = dict.fromkeys(in_file, where) | dict.fromkeys(names, f"{where} and --set")
    origins |= dict.fromkeys(given, by_hand)
    values = {**in_file, **given}
    for name in ("plugins", *PAIRS):  # repeatable options are combined, not replaced
        if name in in_file and name in given:
            values[name] = in_file[name] | given[name] if name in PAIRS else in_file[name] + given[name]
            origins[name] = f"{file} and {by_hand}"
    settings = Settings(action, values, origins, given, all_in_file, names, caller, file)
    settings.check_lists()
    return settings


def _read_replaced(path: str, value: object, action: str, given: Mapping[str, Any]) -> list[str]:
    """Return the options that `--set` changes, which must be those of the action, and not given otherwise."""
    names = list(check_settings(AnyConfig, _flatten_data(_replace({}, path, value)), COMMAND_LINE))
    for name in names:
        users = [other for other, cls in ACTIONS.items() if name in {each.name for each in fields(cls)}]
        if action not in users:
            whose = f"'{name}' is for ch {' and ch '.join(users)}"
            raise ValueError(f"{COMMAND_LINE}: --set {path} has no effect on ch {action}: {whose}")
        if name in given and name not in PAIRS:
            raise ValueError(f"{COMMAND_LINE}: '{name}' is given twice, as an option and with --set")
    return names


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


def _read_table_options(table: Mapping[str, Any], where: str, file: Path | None) -> dict[str, Any]:
    """Return the options in the table of a TOML file, of all actions; `where` begins error messages."""
    for name in COMMAND_LINE_ONLY:
        if name in table:
            raise ValueError(f"{where}: '{name}' can only be given on the command line")
    values = check_settings(AnyConfig, _flatten_data(table), where)
    if "plugins" in values and file is not None:
        beside = {path: (file.parent / path).resolve() for path in values["plugins"] if not path.exists()}
        found = {path: neighbour for path, neighbour in beside.items() if neighbour.exists()}
        values["plugins"] = tuple(found.get(path, path) for path in values["plugins"])
    return values


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


def write_options(
    config: CommandConfig, *, only_changed: bool = False, others: Mapping[str, Any] | None = None
) -> str:
    """Return options, after `others`, as the text of a TOML file that `ch` and `open_run` read.

    With `only_changed`, those that have their default value and those of the session are left out.
    """
    table = {key: value for key, value in to_table(config).items() if key not in NOT_KEPT and value != {}}
    if only_changed:
        defaults = default_options(type(config))
        table = {key: table[key] for key in table if key not in OF_SESSION and table[key] != defaults[key]}
    return write_toml({**{key: to_toml_value(value) for key, value in (others or {}).items()}, **table})


def default_options(config_class: type[CommandConfig]) -> dict[str, Any]:
    """Return the default value of each option, as it is written in TOML."""
    return {each.name: to_toml_value(_default(each)) for each in fields(config_class)}


def _flatten_data(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the `[data]` table by options: its `path` becomes `data`, its other keys `data_option`."""
    data = table.get("data")
    if not isinstance(data, Mapping):
        return dict(table)
    rest = {key: value for key, value in table.items() if key != "data"}
    path = {"data": data["path"]} if "path" in data else {}
    options = {key: value for key, value in data.items() if key != "path"}
    return rest | path | ({"data_option": options} if options else {})


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
    return isinstance(value, list | tuple)
