"""Forwards that read the mode of a module, `self.training`, are compared in both modes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from unittest import mock

import torch
from torch import fx, nn

from chop.ir.graph.capture.errors import CaptureError, code_at, is_library
from chop.ir.graph.model_state import unchanged
from chop.ir.graph.training_mode import EVALUATION_ONLY, bind_to_mode
from chop.nn import quantized

logger = logging.getLogger(__name__)

_LAYERS = tuple(str(Path(package.__path__[0])) for package in (torch, quantized))
"""Packages whose layers follow the mode by themselves."""
_SETTERS = (__file__, inspect.getfile(nn.Module))
"""Files with the code that sets a mode on behalf of its caller."""


class ModeRead(NamedTuple):
    """A read of the mode of a module."""

    module: nn.Module
    line: str
    """Where it is, such as `, net.py:12: ...`."""
    position: int
    """How many calls of functions and layers came before."""


@contextmanager
def mode_reads(position: Callable[[], int] = lambda: 0) -> Iterator[list[ModeRead]]:
    """Yield a list to which each read of a mode, and each change, outside of torch's own code is added."""
    reads: list[ModeRead] = []

    def note(module: nn.Module, caller: FrameType | None) -> None:
        if caller is not None and not caller.f_code.co_filename.startswith(_LAYERS):
            reads.append(ModeRead(module, code_at(caller.f_code.co_filename, caller.f_lineno), position()))

    def get(module: nn.Module) -> bool:
        frame = inspect.currentframe()
        note(module, frame.f_back if frame is not None else None)
        held = vars(module)
        return bool(held["training"] if "training" in held else module.__getattr__("training"))

    def put(module: nn.Module, training: bool) -> None:
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename in _SETTERS:
            frame = frame.f_back
        note(module, frame)
        vars(module)["training"] = training

    with mock.patch.object(nn.Module, "training", property(get, put), create=True):
        yield reads


class Traced(NamedTuple):
    """A graph, and where the forward reads the mode of modules."""

    graph: fx.Graph
    reads: list[ModeRead]


def trace_both_modes(model: nn.Module, trace: Callable[[], Traced]) -> fx.Graph:
    """Return a graph that follows the mode as the model does, or one that is for evaluation only.

    `trace` traces the model in its present modes. If the forward does not read them, it is called once.
    """
    present = _attempt(trace)
    if isinstance(present, Traced) and not present.reads:
        return present.graph
    evaluated, trained = (_in_mode(model, training, present, trace) for training in (False, True))
    if isinstance(evaluated, CaptureError):
        raise evaluated
    if isinstance(present, CaptureError) and not evaluated.reads:
        raise present
    difference: int | None = len(evaluated.graph.nodes)
    if isinstance(present, Traced) and isinstance(trained, Traced):
        readers = modes_read(model, evaluated.reads)
        difference = bind_to_mode(present.graph, evaluated.graph, trained.graph, readers)
        if difference is None:
            return present.graph
    for_evaluation(evaluated.graph, model, evaluated.reads, difference)
    return evaluated.graph


def _attempt(trace: Callable[[], Traced]) -> Traced | CaptureError:
    try:
        return trace()
    except CaptureError as error:
        return error


def _in_mode(
    model: nn.Module, training: bool, present: Traced | CaptureError, trace: Callable[[], Traced]
) -> Traced | CaptureError:
    """Return what is traced in one mode, or the error; `present` is the result in the present modes."""
    if all(module.training is training for module in model.modules()):
        return present
    with unchanged(model):
        for module in model.modules():
            module.training = training
        return _attempt(trace)


def for_evaluation(graph: fx.Graph, model: nn.Module, reads: Sequence[ModeRead], difference: int | None) -> None:
    """Let a graph refuse to run in training, and warn about it.

    The message has the line that reads the mode last before the position where the modes differ.
    """
    lines = modes_read(model, reads, difference)
    graph.output_node().meta[EVALUATION_ONLY] = lines or {"": ""}
    logger.warning(
        "%s computes something else in training than in evaluation%s; its graph is for evaluation only",
        type(model).__name__,
        next(iter(lines.values()), ""),
    )


@contextmanager
def gradients_mode_reads() -> Iterator[list[str]]:
    """Yield a list to which the lines of a model's own code are added that call `torch.is_grad_enabled`."""
    lines: list[str] = []
    is_grad_enabled = torch.is_grad_enabled

    def note() -> bool:
        frame = inspect.currentframe()
        caller = frame.f_back if frame is not None else None
        if caller is not None and not is_library(caller.f_code.co_filename):
            lines.append(code_at(caller.f_code.co_filename, caller.f_lineno))
        return is_grad_enabled()

    with mock.patch.object(torch, "is_grad_enabled", note):
        yield lines


def modes_read(model: nn.Module, reads: Sequence[ModeRead], position: int | None = None) -> dict[str, str]:
    """Return the paths of the modules whose mode is read, with the lines; first the last one before a position."""
    paths = {id(module): path for path, module in model.named_modules()}
    before = [read for read in reads if position is not None and read.position <= position]
    lines: dict[str, str] = {}
    for read in (*before[-1:], *reads):
        lines.setdefault(paths.get(id(read.module), ""), read.line)
    return lines
