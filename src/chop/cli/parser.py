"""The words after `ch`, sorted into an action and the text of each option; the help comes from here."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, cast, get_args, get_origin

from chop import __version__
from chop.config import ACTIONS, PAIRS, ActionConfig, CommandConfig
from chop.options import aliases, type_hints
from chop.registry import UnknownNameError, closest

KINDS = ("models", "datasets", "formats", "passes", "ops")
DESCRIPTION = "Explore number formats, cost and hardware of PyTorch models."
EXAMPLES = {
    "train": "ch train jsc-tiny jsc --max-epochs 10 --batch-size 256 --learning-rate 0.0001\n"
    "  ch train jsc-tiny jsc --batch-size 64,128,256    one run for each, and a table of all\n"
    "  ch train my_net.py:Net jsc                       a network of your own",
    "test": "ch test jsc-tiny jsc --load mase_output/.../training_ckpts/best.ckpt",
    "transform": "ch transform --config configs/examples/jsc_toy_by_type.toml --task cls",
    "search": "ch search --config configs/examples/jsc_toy_search.toml\n"
    "  ch search --config configs/examples/jsc_toy_search.toml --max-drop 0.5",
    "report": "ch report\n  ch report jsc-toy_classification_jsc_2026-01-31 --open",
    "explain": "ch explain mase_output/jsc-toy_classification_jsc_2026-01-31 seq_blocks_2",
    "view": "ch view --open",
    "info": "ch info formats\n  ch info formats integer\n  ch info models --plugin my_networks.py",
}


@dataclass(frozen=True)
class ActionRequest:
    """An action and the options given with it, as they were typed."""

    action: str
    texts: Mapping[str, str | list[str]]
    show_config: bool


@dataclass(frozen=True)
class InfoRequest:
    """A kind of thing to describe, and perhaps one of them."""

    kind: str
    name: str | None
    plugins: tuple[Path, ...]
    png: Path | None = None


def parse(words: Sequence[str]) -> ActionRequest | InfoRequest:
    """What was asked for; `--help` and `--version` print and end here."""
    first = words[0] if words else "--help"
    if not first.startswith("-") and first not in (*ACTIONS, "info"):
        raise UnknownNameError(f"unknown action '{first}', {closest(first, [*ACTIONS, 'info'])}")
    given, unknown = build_parser().parse_known_args(words or ["--help"])
    if unknown:
        raise ValueError(_explain_unknown(unknown[0], given.action))
    texts = {key: text for key, text in vars(given).items() if key not in ("action", "show_config")}
    if given.action != "info":
        return ActionRequest(given.action, texts, getattr(given, "show_config", False))
    if given.kind not in KINDS:
        raise UnknownNameError(f"unknown kind '{given.kind}', {closest(given.kind, KINDS)}")
    png = None if given.png is None else Path(given.png)
    if png is not None and (given.kind != "formats" or given.name is None):
        raise ValueError("--png draws the values of one format: ch info formats NAME --png PATH")
    return InfoRequest(given.kind, given.name, tuple(Path(path) for path in given.plugins), png)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with the value of an option once, behind all its names: `--load, --load-name PATH`."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=116)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


def build_parser() -> argparse.ArgumentParser:
    epilog = "Each action has a help of its own: ch train --help"
    parser = Parser(prog="ch", description=DESCRIPTION, epilog=epilog, allow_abbrev=False, formatter_class=_Help)
    parser.add_argument("--version", action="version", version=f"ch {__version__}")
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    for name, cls in ACTIONS.items():
        _add_action(_add_parser(actions, name, cls.__doc__ or "", _usage(cls)), cls)
    info = _add_parser(actions, "info", "List what has a name here, or tell all about one of them.", "KIND [NAME]")
    info.add_argument("kind", metavar="KIND", help=", ".join(KINDS))
    info.add_argument("name", metavar="NAME", nargs="?", help="the one to describe")
    plugin = next(field for field in fields(CommandConfig) if field.name == "plugins")
    info.add_argument(
        "--plugin", dest="plugins", action="append", default=[], metavar="PATH", help=plugin.metadata["help"]
    )
    info.add_argument("--png", metavar="PATH", help="draw the values of a format into this file")
    return parser


def _add_parser(actions: Any, name: str, text: str, usage: str) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=text,
        description=text,
        usage=f"ch {name} {usage}",
        epilog=f"examples:\n  {EXAMPLES[name]}",
        allow_abbrev=False,
        formatter_class=_Help,
    )
    return cast(argparse.ArgumentParser, parser)


def _usage(cls: type[Any]) -> str:
    if issubclass(cls, ActionConfig):
        return "[MODEL DATASET] [--config FILE] [options]"
    return " ".join([f"[{field.name.upper()}]" for field in fields(cls) if _is_positional(field)] + ["[options]"])


def _is_positional(field: Field[Any]) -> bool:
    return bool(field.metadata["kind"] == "positional")


def _add_action(parser: argparse.ArgumentParser, cls: type[Any]) -> None:
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
            group.add_argument(*flags(field), **_how_to_add(field, cls))
    if issubclass(cls, ActionConfig):
        groups["this run"].add_argument(
            "--show-config", action="store_true", help="print all options, with where each comes from, and end"
        )


def _help(field: Field[Any], cls: type[Any]) -> str:
    has_default = field.default not in (MISSING, None, ()) and not isinstance(field.default, bool)
    extra = ["or several: 1,2,3"] if field.metadata["grid"] and cls is ACTIONS["train"] else []
    extra += [f"default: {field.default}"] if has_default else []
    return str(field.metadata["help"]) + (f" ({'; '.join(extra)})" if extra else "")


def _how_to_add(field: Field[Any], cls: type[Any]) -> dict[str, Any]:
    hint = type_hints(cls)[field.name]
    common = {"dest": field.name, "default": argparse.SUPPRESS, "help": _help(field, cls)}
    if hint is bool:
        return common | {"action": "store_const", "const": "true"}
    repeatable = {"action": "append"} if field.name in ("plugins", *PAIRS) else {}
    return common | {"metavar": _metavar(field.name, hint)} | repeatable


def _metavar(name: str, hint: object) -> str:
    if name in PAIRS:
        return "NAME=VALUE"
    if get_origin(hint) is Literal:
        return "|".join(get_args(hint))
    kinds = get_args(hint) or (hint,)
    return {int: "N", float: "X", Path: "PATH"}.get(kinds[0], "NAME")


def flags(field: Field[Any]) -> list[str]:
    """The spellings of an option, the shortest first."""
    names = sorted((*aliases(field), field.name), key=len)
    return [f"--{name.replace('_', '-')}" for name in names]


def _explain_unknown(argument: str, action: str) -> str:
    if not argument.startswith("-"):
        return f"unexpected argument '{argument}'"
    flag = argument.split("=")[0]
    if action == "info":
        return f"unknown option '{flag}' of ch info, {closest(flag, ['--plugin', '--png', '--help'])}"
    for other, cls in ACTIONS.items():
        if flag in _all_flags(cls):
            return f"'{flag}' is no option of ch {action}, but of ch {other}"
    return f"unknown option '{flag}', {closest(flag, [*_all_flags(ACTIONS[action]), '--help'])}"


def _all_flags(cls: type[Any]) -> list[str]:
    extra = ["--show-config"] if issubclass(cls, ActionConfig) else []
    return [flag for field in fields(cls) if field.metadata["kind"] == "option" for flag in flags(field)] + extra
