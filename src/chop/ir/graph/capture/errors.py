"""Errors of capturing, and the line of a model's code that they come from."""

from __future__ import annotations

import linecache
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

_LIBRARIES = (str(Path(torch.__file__).parent), str(Path(__file__).parents[3]))
"""torch and this package: the model's own code, and that of libraries of models, is elsewhere."""
_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes")


class CaptureError(ValueError):
    """A model that cannot be captured as a graph."""


class TraceError(CaptureError):
    """torch.fx cannot trace the model."""


class ExportError(CaptureError):
    """torch.export cannot capture the model."""


@contextmanager
def no_messages_of_torch() -> Iterator[None]:
    """Keep torch from logging errors of runs on tensors without data; they are raised as well."""
    before = [(log, log.disabled) for log in map(logging.getLogger, _LOGGERS)]
    for log, _ in before:
        log.disabled = True
    try:
        yield
    finally:
        for log, disabled in before:
            log.disabled = disabled


def source_line(error: BaseException) -> str:
    """Return file, line and code of the innermost call in a model's code, such as `, net.py:12: ...`, or ''."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_LIBRARIES)]
    if not frames:
        return ""
    frame = frames[-1]
    source = linecache.getline(frame.filename, frame.lineno or 0).strip() or frame.line or ""
    return f", {frame.filename}:{frame.lineno}: `{source}`"


def first_sentence(error: BaseException) -> str:
    """Return the first line of an error's message, without the pages of advice that torch.export adds."""
    if type(error).__name__ == "GuardOnDataDependentSymNode":  # its module takes long to import
        return "the code depends on the values of a tensor"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
