"""The command `ch`: reads the arguments, runs the action and reports errors in one line."""

from __future__ import annotations

import gc
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from chop.cli.next_command import next_command
from chop.cli.parser import parse
from chop.config import ActionConfig, CommandConfig, TrainGrid, engine_of
from chop.config.settings import Settings, read_settings
from chop.display.extras import EXTRAS, missing_package
from chop.display.launcher import command_line, launcher
from chop.plugins import users_frame
from chop.registry import UnknownNameError
from chop.trusted_files import UntrustedFileError

MAX_WORD = 400
"""Characters of a word in an error message, such as a path; the middle of longer ones is left out."""
MAX_MESSAGE = 900
"""Characters of an error message."""
STDERR = 2
UNDECODED = re.compile(r"[^\s/'\"]*[\udc80-\udcff][^\s/'\"]*")
"""A name in which Python has kept bytes that are not characters in the encoding of file names."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `ch` and return its exit code: 2 after an error of the user, with one line on stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _replace_closed_streams()
    try:
        with command_line():
            _run(words)
        sys.stdout.flush()  # here, because Python ends with a warning if it fails
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as error:
        print(f"ch: interrupted{f': {error}' if str(error) else ''}", file=sys.stderr)
        return 130
    except (Exception, SystemExit) as error:
        message = _explain(error, words)
        if message is None:
            raise
        if _wants_traceback(words):
            traceback.print_exc()
        with suppress(OSError):  # nobody reads it
            print(f"ch: error: {shorten_message(message)}", file=sys.stderr, flush=True)
        return 2
    return 0


def _replace_closed_streams() -> None:
    """Let closed streams lead nowhere: the next files to be opened would get their numbers, and what is printed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(number)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115  # until the process ends
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _run(words: Sequence[str]) -> None:
    try:
        Path.cwd()  # libraries end the process when they look for a folder that was deleted
    except FileNotFoundError:
        raise ValueError("the current folder no longer exists; change to another one with cd") from None
    request = parse(words)
    settings = read_settings(request.action, request.given, request.replaced)
    if request.show_config:
        print(settings.show(), end="")
    else:
        _print_output_path(settings, run_action(settings))


def run_action(settings: Settings) -> Path | None:
    """Run an action and return the path of its results, if it has any."""
    _prepare(settings.values)
    settings.prepare()
    # Imported here, and torch with it: `ch --help` stays fast.
    from chop.display.progress import Stage

    with Stage("starting"), _no_garbage_collection():
        module, name = engine_of(settings.action)
        run = getattr(import_module(module), name)
    result = run(_with_run_to_load(settings.config()))
    return cast("Path | None", getattr(result, "path", result))  # of a run folder


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector while torch is imported: looking at what stays anyway takes half a second.

    What was imported is not looked at later either.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _with_run_to_load(config: CommandConfig | TrainGrid) -> CommandConfig | TrainGrid:
    """Replace `--load latest` by the path of the run that it stands for."""
    if not isinstance(config, ActionConfig | TrainGrid):
        return config
    from chop.runs.listing import with_run_to_load  # imports torch and the passes, which `ch info` may not need

    if isinstance(config, TrainGrid):
        return replace(config, configs=[with_run_to_load(each) for each in config.configs])
    return with_run_to_load(config)


def _prepare(options: Mapping[str, Any]) -> None:
    """Set up logging and the memory allocator."""
    from chop.allocator import keep_freed_memory
    from chop.tools.logger import set_logging_verbosity

    level = "debug" if options.get("debug") else options.get("log_level", CommandConfig.log_level)
    set_logging_verbosity("error" if options.get("no_warnings") else level, repeat_warnings=False)
    if options.get("no_warnings"):
        warnings.simplefilter("ignore")
    keep_freed_memory()


def _print_output_path(settings: Settings, path: Path | None) -> None:
    """Print where the results are, and what to type next, from the main process only."""
    if path is None:
        return
    from chop.training.devices import is_main_process  # imports torch, which --help does not need

    if is_main_process():
        print(f"saved in {path}", flush=True)
        command = next_command(settings.config(), path)
        if command is not None:
            print(f"next: {command}", file=sys.stderr)


def shorten_message(text: str) -> str:
    """Return an error message without the middle of words, and without the end of sentences, that nobody reads."""
    words = re.sub(rf"\S{{{MAX_WORD},}}", lambda word: f"{word[0][:80]}...{word[0][-20:]}", text)
    return words if len(words) <= MAX_MESSAGE else f"{words[:MAX_MESSAGE]}..."


def _explain(error: BaseException, words: Sequence[str]) -> str | None:
    """Return one line for an error that the user can correct, and None for an error in this package."""
    if isinstance(error, UntrustedFileError):
        files = [word for file in error.files for word in ("--trust", str(file))]
        return f"{error.problem}; if you trust it: {launcher()} {shlex.join([*words, *files])}"
    if isinstance(error, UnicodeEncodeError) and (name := UNDECODED.search(error.object)):
        change = "rename it" if sys.getfilesystemencoding() == "utf-8" else "set PYTHONUTF8=1"
        return f"'{os.fsencode(name[0]).decode(errors='backslashreplace')}' is not a name in UTF-8: {change}"
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | UnknownNameError | OSError):
        return text
    if isinstance(error, ModuleNotFoundError) and error.name is not None and error.name in EXTRAS:
        return missing_package(error.name, "this")
    line = users_frame(error)
    return f"{line}: {type(error).__name__}: {text}" if line else None


def _wants_traceback(words: Sequence[str]) -> bool:
    pairs = zip(words, [*words[1:], ""], strict=True)
    if "--debug" in words or "--log-level=debug" in words or ("--log-level", "debug") in pairs:
        return True
    with suppress(ValueError, UnknownNameError, OSError):  # the error may be in the options themselves
        request = parse(words)
        values = read_settings(request.action, request.given, request.replaced).values
        return values.get("debug") is True or values.get("log_level") == "debug"
    return False
