"""`ch`: one subcommand an action, its options read off the action's dataclass."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import cast

from chop.cli.parser import InfoRequest, parse
from chop.cli.settings import Settings, read_settings
from chop.config import CommandConfig, TrainConfig
from chop.plugins import load_plugin, users_frame
from chop.registry import UnknownNameError

EXTRAS = {"optuna": "search", "pyarrow": "search", "scipy": "search"}
"""Packages that not every installation has, and the extra that brings each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ch` and return its exit code; a user's mistake is one line on stderr and code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _run(words)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        print(f"ch: interrupted{f': {error}' if str(error) else ''}", file=sys.stderr)
        return 130
    except Exception as error:
        message = _explain(error)
        if message is None:
            raise
        if _wants_traceback(words):
            traceback.print_exc()
        print(f"ch: error: {message}", file=sys.stderr)
        return 2
    return 0


def _run(words: Sequence[str]) -> None:
    command = parse(words)
    if isinstance(command, InfoRequest):
        from chop.info import describe  # imports torch, which --help does not need

        for plugin in command.plugins:
            load_plugin(plugin)
        print(describe(command.kind, command.name))
        if command.png is not None and command.name is not None:
            from chop.info.formats import draw_format

            draw_format(command.name, command.png)
        return
    settings = read_settings(command.action, command.texts)
    if command.show_config:
        print(settings.show(), end="")
    else:
        _tell_where(run_action(settings))


def _tell_where(place: Path | None) -> None:
    """Where the results are, if there are any, told by the first process for all."""
    if place is None:
        return
    from chop.training.devices import is_main_process

    if is_main_process():
        print(f"saved in {place}")


def run_action(settings: Settings) -> Path | None:
    """Import the action, and with it torch, and run it once or over the grid."""
    from chop.tools.allocator import keep_freed_memory

    configs = settings.configs()
    _set_log(configs[0])
    keep_freed_memory()
    for plugin in configs[0].plugins:
        load_plugin(plugin)
    action = getattr(import_module(f"chop.actions.{settings.action}"), settings.action)
    if not settings.varied:
        return cast("Path | None", action(configs[0]))
    from chop.training.grid import run_grid

    return run_grid([each for each in configs if isinstance(each, TrainConfig)], settings.varied).path


def _set_log(config: CommandConfig) -> None:
    from chop.tools.logger import set_logging_verbosity

    level = "debug" if config.debug else config.log_level
    set_logging_verbosity("error" if config.no_warnings else level)
    if config.no_warnings:
        warnings.simplefilter("ignore")


def _explain(error: Exception) -> str | None:
    """One line for a mistake that the user can mend; None for one of ours."""
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | UnknownNameError | OSError):
        return text
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return f"this needs the package '{error.name}': pip install 'chop[{EXTRAS[error.name]}]'"
    place = users_frame(error)
    return f"{place}: {type(error).__name__}: {text}" if place else None


def _wants_traceback(words: Sequence[str]) -> bool:
    pairs = zip(words, [*words[1:], ""], strict=True)
    if "--debug" in words or "--log-level=debug" in words or ("--log-level", "debug") in pairs:
        return True
    with suppress(ValueError, UnknownNameError, OSError):  # the options may be what is wrong
        command = parse(words)
        if not isinstance(command, InfoRequest):
            values = read_settings(command.action, command.texts).values
            return values.get("debug") is True or values.get("log_level") == "debug"
    return False
