"""Errors of capturing, and the line of a model's code that they come from."""

from __future__ import annotations

import linecache
import logging
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

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


class ModelFailsError(ExportError):
    """The model itself fails on the example inputs."""


class DependsOnValuesError(ExportError):
    """The model's code depends on the values of a tensor, so that no graph is the model for all inputs."""


@contextmanager
def no_messages_of_torch() -> Iterator[None]:
    """Keep torch from logging errors of runs on tensors without data; they are raised as well."""
    with ExitStack() as stack:
        for name in _LOGGERS:
            stack.enter_context(mock.patch.object(logging.getLogger(name), "disabled", True))
        yield


def is_library(file: str) -> bool:
    """Whether a file is not part of a model's own code."""
    return file.startswith(_LIBRARIES)


def source_line(error: BaseException) -> str:
    """Return file, line and code of the innermost call in a model's code, such as `, net.py:12: ...`, or ''."""
    places = ((frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__))
    own = [place for place in places if not is_library(place[0])]
    return code_at(*own[-1]) if own else ""


def code_at(file: str, number: int) -> str:
    """Return file, line and code, such as `, net.py:12: ...`."""
    return f", {file}:{number}: `{linecache.getline(file, number).strip()}`"


def first_sentence(error: BaseException) -> str:
    """Return the first line of an error's message, without the pages of advice that torch.export adds."""
    if depends_on_values(error):
        return "the code depends on the values of a tensor"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__


def depends_on_values(error: BaseException) -> bool:
    """Whether torch.export came to code that depends on the values of a tensor."""
    return type(error).__name__ == "GuardOnDataDependentSymNode"  # its module takes long to import
