"""The argument parser of `ch` and its help."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from chop import __version__
from chop.config import ACTIONS, PAIRS, REPEATABLE, ActionConfig, CommandConfig
from chop.config.settings import grid_options
from chop.options import aliases, type_hints
from chop.registry import UnknownNameError, closest

LAUNCHER_HELP = """also, with the launcher of a checkout:
  ch python [FILE]    a Python that can import chop
  ch notebook         JupyterLab in the current folder
  ch setup EXTRA      install optional packages; an unknown name lists them"""
PROGRAM_FLAGS = ("-h", "--help", "--version")
DESCRIPTION = "Explore number formats for PyTorch models: accuracy, error and cost."


@dataclass(frozen=True)
class Request:
    """An action and the options given with it."""

    action: str
    given: Mapping[str, Any]
    show_config: bool = False
    replaced: Sequence[tuple[str, Any]] = ()
    """Keys of the TOML file with new values, such as `("passes.quantize.linear.config.weight_width", 4)`."""


def parse(words: Sequence[str]) -> Request:
    """Parse the command line; `--help` and `--version` print and exit."""
    first = words[0] if words else "--help"
    if not first.startswith("-") and first not in ACTIONS:
        raise UnknownNameError(f"unknown action '{first}'; {closest(first, ACTIONS)}")
    if first.startswith("-") and first not in PROGRAM_FLAGS:
        raise ValueError(f"unknown option '{first}' before the action; {closest(first, PROGRAM_FLAGS)}")
    given, unknown = build_parser().parse_known_args(words or ["--help"])
    if unknown:
        raise ValueError(_explain_unknown(unknown[0], given.action))
    texts = {key: text for key, text in vars(given).items() if key not in ("action", "show_config", "set")}
    values = {name: _from_text(name, text, ACTIONS[given.action]) for name, text in texts.items()}
    replaced = [_pair("set", text) for text in getattr(given, "set", None) or ()]
    return Request(given.action, values, getattr(given, "show_config", False), replaced)


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
        raise ValueError(f"command line: {kind} must have the form name=value, got '{text}'")
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        return name, tomllib.loads(f"x = {value}")["x"]
    return name, value


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `ValueError` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help that shows the value of an option once, after all its names: `--load, --load-name PATH`."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=116)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):  # argparse forgets that its names are indented
            self._action_max_length += self._indent_increment

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `ch` with a subparser per action."""
    epilog = "Show the options of an action: ch train --help"
    if "CHOP_LAUNCHER" in os.environ:
        epilog += f"\n\n{LAUNCHER_HELP}"
    parser = Parser(prog="ch", description=DESCRIPTION, epilog=epilog, allow_abbrev=False, formatter_class=_Help)
    parser.add_argument("--version", action="version", version=f"ch {__version__}")
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, cls in ACTIONS.items():
        action = actions.add_parser(
            name,
            help=cls.__doc__,
            description=cls.__doc__,
            usage=f"ch {name} {_usage(cls)}",
            epilog="\n  ".join(("examples:", *cls.examples)),
            allow_abbrev=False,
            formatter_class=_Help,
        )
        _add_options(action, cls)
    return parser


def _usage(cls: type[CommandConfig]) -> str:
    if issubclass(cls, ActionConfig):
        return "[MODEL DATASET] [--config FILE] [options]"
    positionals = [field for field in fields(cls) if _is_positional(field)]
    names = [f"[{field.name.upper()}]" for field in positionals]  # all have a default
    return " ".join([*names, "[options]"])


def _is_positional(field: Field[Any]) -> bool:
    return bool(field.metadata["kind"] == "positional")


def _add_options(parser: argparse.ArgumentParser, cls: type[CommandConfig]) -> None:
    groups: dict[str, Any] = {}
    for field in sorted(fields(cls), key=lambda field: field.metadata["group"] != "training"):
        if _is_positional(field):
            parser.add_argument(
                field.name,
                nargs="?",
                default=argparse.SUPPRESS,
                metavar=field.name.upper(),
                help=_help(field, cls),
            )
        elif field.metadata["kind"] == "option":
            title = field.metadata["group"]
            group = groups[title] = groups.get(title) or parser.add_argument_group(title)
            group.add_argument(*flags(field), **_argument(field, cls))
    if issubclass(cls, ActionConfig):
        groups["general"].add_argument(
            "--show-config",
            action="store_true",
            help="print all options, and where each value comes from, then exit",
        )
        groups["general"].add_argument(
            "--set",
            action="append",
            metavar="KEY=VALUE",
            help="replace a key of the TOML file, such as passes.quantize.linear.config.weight_width=4; repeatable",
        )


def _help(field: Field[Any], cls: type[CommandConfig]) -> str:
    has_default = field.default not in (MISSING, None, ()) and not isinstance(field.default, bool)
    extra = ["or a list: 1,2,3"] if field.metadata["grid"] and cls is ACTIONS["train"] else []
    extra += [f"default: {field.default}"] if has_default else []
    return str(field.metadata["help"]) + (f" ({'; '.join(extra)})" if extra else "")


def _argument(field: Field[Any], cls: type[CommandConfig]) -> dict[str, Any]:
    hint = type_hints(cls)[field.name]
    common = {"dest": field.name, "default": argparse.SUPPRESS, "help": _help(field, cls)}
    if hint is bool:
        return common | {"action": "store_const", "const": "true"}
    action = "append" if field.name in (*REPEATABLE, *PAIRS) else _UnderOneName
    return common | {"metavar": _metavar(field, hint), "action": action}


class _UnderOneName(argparse.Action):
    """Stores a value; the last one counts, but two names for one option are an error."""

    given: str | None = None

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if self.given not in (None, option_string):
            raise ValueError(f"'{self.given}' and '{option_string}' are the same option: give one of them")
        self.given = option_string
        setattr(namespace, self.dest, values)


def _metavar(field: Field[Any], hint: object) -> str:
    if field.name in PAIRS:
        return "NAME=VALUE"
    if field.metadata["choices"]:
        return "|".join(field.metadata["choices"])
    kinds = get_args(hint) or (hint,)
    for kind in (hint, *kinds):
        if get_origin(kind) is Literal:
            return "|".join(get_args(kind))
    return {int: "N", float: "X", Path: "PATH"}.get(kinds[0], "NAME")


def flags(field: Field[Any]) -> list[str]:
    """Return the names of an option on the command line, the shortest first."""
    names = sorted((*aliases(field), field.name), key=len)
    return [f"--{name.replace('_', '-')}" for name in names]


def _explain_unknown(argument: str, action: str) -> str:
    if not argument.startswith("-"):
        return f"unexpected argument '{argument}'"
    flag = argument.split("=")[0]
    for other, cls in ACTIONS.items():
        if flag in _all_flags(cls):
            return f"'{flag}' is an option of ch {other}, not of ch {action}"
    nearest = closest(flag, [*_all_flags(ACTIONS[action]), "--help"])
    if not nearest.startswith("did you mean"):
        nearest = f"see ch {action} --help"
        if issubclass(ACTIONS[action], ActionConfig):
            name = f"{flag.lstrip('-').replace('-', '_')}=..."
            nearest += f"; options of the data set and the model: --data-option {name}, --model-option {name}"
    return f"unknown option '{flag}'; {nearest}"


def _all_flags(cls: type[CommandConfig]) -> list[str]:
    extra = ["--show-config", "--set"] if issubclass(cls, ActionConfig) else []
    return [flag for field in fields(cls) if field.metadata["kind"] == "option" for flag in flags(field)] + extra
