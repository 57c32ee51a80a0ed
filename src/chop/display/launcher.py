"""The names of the command and of its options in messages."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_on_command_line: ContextVar[bool] = ContextVar("on_command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """Let messages name options as on the command line."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def option_name(name: str) -> str:
    """Return an option as the user would write it: `--project-dir` for `ch`, `project_dir` in Python."""
    return f"--{name.replace('_', '-')}" if _on_command_line.get() else f"'{name}'"


def data_option(text: str) -> str:
    """Return an option of a data set as the user would write it; `text` is NAME=VALUE, or NAME= for any value."""
    if _on_command_line.get():
        return f"--data-option {shlex.quote(text)}"
    name, _, value = text.partition("=")
    return f"{name}={value!r}" if value else text


def launcher() -> str:
    """Return the command with which the user started the command line, for commands to copy."""
    return os.environ.get("CHOP_LAUNCHER", "ch")
