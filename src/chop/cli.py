"""`ch`: one subcommand an action, its options read off the action's dataclass."""

from __future__ import annotations

import argparse
import logging
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from chop import __version__
from chop.actions.config import TransformConfig
from chop.options import aliases, check_options, read_options, type_hints
from chop.registry import UnknownNameError, closest

# Each name is also that of the module in chop.actions and of the function in it, imported when it is run.
ACTIONS: Mapping[str, type[Any]] = {"transform": TransformConfig}

logger = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ch` and return its exit code; a user's mistake is one line on stderr and code 2."""
    try:
        name, config = read_command(sys.argv[1:] if arguments is None else arguments)
        print(f"saved in {run_action(name, config)}")
    except KeyboardInterrupt:
        print("ch: interrupted", file=sys.stderr)
        return 130
    except (ValueError, UnknownNameError, OSError) as error:
        logger.debug("where it went wrong", exc_info=True)
        print(f"ch: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def run_action(name: str, config: Any) -> Path:
    from chop.tools.logger import set_logging_verbosity  # imports torch, which --help does not need

    set_logging_verbosity(config.log_level)
    action: Callable[[Any], Path] = getattr(import_module(f"chop.actions.{name}"), name)
    return action(config)


def read_command(arguments: Sequence[str]) -> tuple[str, Any]:
    """The action and its configuration: defaults < TOML < command line."""
    name = arguments[0] if arguments else "--help"
    if not name.startswith("-") and name not in ACTIONS:
        raise UnknownNameError(f"unknown action '{name}', {closest(name, ACTIONS)}")
    given, unknown = build_parser().parse_known_args(arguments or ["--help"])
    cls = ACTIONS[given.action]
    if unknown:
        raise ValueError(_explain_unknown(unknown[0], cls))
    texts = {key: text for key, text in vars(given).items() if key != "action"}
    typed = {key: _from_text(text, type_hints(cls)[key]) for key, text in texts.items()}
    options = check_options(cls, typed, "command line")
    from_file = read_toml(options["config"], cls) if "config" in options else {}
    return given.action, read_options(cls, {**from_file, **options}, given.action)


def read_toml(file: Path, cls: type[Any]) -> dict[str, Any]:
    """The options in a TOML file, checked against the fields of `cls`."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file}: not valid TOML: {error}") from error
    except OSError as error:
        raise OSError(f"cannot read {file}: {error.strerror}") from error
    return check_options(cls, table, str(file))


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def build_parser() -> argparse.ArgumentParser:
    description = "Explore number formats, cost and hardware of PyTorch models."
    parser = Parser(prog="ch", description=description, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"ch {__version__}")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, cls in ACTIONS.items():
        action = actions.add_parser(name, help=cls.__doc__, description=cls.__doc__, allow_abbrev=False)
        for field in fields(cls):
            _add_option(action, field, type_hints(cls)[field.name])
    return parser


def _add_option(parser: argparse.ArgumentParser, field: Field[Any], hint: object) -> None:
    has_default = field.default not in (MISSING, None)
    text = field.metadata["help"] + (f" (default: {field.default})" if has_default else "")
    if field.metadata["kind"] == "positional":
        parser.add_argument(field.name, nargs="?", default=argparse.SUPPRESS, metavar=field.name.upper(), help=text)
    elif field.metadata["kind"] == "option":
        parser.add_argument(
            *_flags(field), dest=field.name, default=argparse.SUPPRESS, metavar=_metavar(hint), help=text
        )


def _metavar(hint: object) -> str:
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    kinds = get_args(hint) or (hint,)
    return {int: "N", float: "X", Path: "PATH"}.get(kinds[0], "NAME")


def _flags(field: Field[Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in (field.name, *aliases(field))]


def _explain_unknown(argument: str, cls: type[Any]) -> str:
    if not argument.startswith("-"):
        return f"unexpected argument '{argument}'"
    flag = argument.split("=")[0]
    known = [name for field in fields(cls) if field.metadata["kind"] == "option" for name in _flags(field)]
    return f"unknown option '{flag}', {closest(flag, known)}"


def _from_text(text: str, hint: object) -> object:
    """The number that `text` spells where `hint` wants one; `check_options` judges the rest."""
    for kind in (int, float):
        if kind in (hint, *get_args(hint)):
            with suppress(ValueError):
                return kind(text)
    return text
