"""State that a forward carries to its next call, and random numbers that a graph would hold as constants."""

from __future__ import annotations

import pickle
import random
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import fx, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.errors import CaptureError, code_at, is_library
from chop.ir.graph.model_state import Attribute, ModelState, join, unchanged

_ADVICE = (
    "make it a buffer (register_buffer) that forward changes, or keep the module as one node with "
    "leaf_modules=(Class,)"
)


class CarriedStateError(CaptureError):
    """A forward whose next call depends on this one in a way that a graph does not represent."""


def check_attributes(model: nn.Module, changed: Set[Attribute], run: Callable[[], object]) -> None:
    """Raise an error if attributes that a run of the forward changes make a difference for the next run.

    `run` runs the forward and returns what it computes. Attributes that a run writes before it reads them are
    harmless, such as an activation that is kept for inspection; so are those that only the first run writes, such
    as a table that is made once, if both runs compute the same.
    """
    if not changed:
        return
    with unchanged(model) as before:
        first = run()
        replaced = before.replaced()
        between = ModelState(model)
        with _read_before_written(model, changed) as read:
            second = run()
        differ = set()
        for path, name in read & between.changes():
            # what torch.fx has traced, such as activations for inspection, makes no difference
            leaves = pytree.tree_leaves(vars(model.get_submodule(path)).get(name))
            if not leaves or not all(isinstance(leaf, fx.Proxy) for leaf in leaves):
                differ.add((path, name))
        differ |= {each for each in changed if each in between.buffers or each[1] == "training"}
    if differ or first != second:
        path, name = min(differ or changed)
        kind_of_change = ModelState.replaced if (path, name) in replaced else ModelState.changes
        line = first_line(model, run, lambda state: (path, name) in kind_of_change(state))
        raise CarriedStateError(
            f"{type(model).__name__} changes '{join(path, name)}' for its next call{line}; {_ADVICE}"
        )


@contextmanager
def _read_before_written(model: nn.Module, attributes: Set[Attribute]) -> Iterator[set[Attribute]]:
    """Yield a set to which those of the attributes are added that are read before they are written."""
    paths = {id(module): path for path, module in model.named_modules()}
    read: set[Attribute] = set()
    written: set[Attribute] = set()
    set_attribute = nn.Module.__setattr__

    def get(module: nn.Module, name: str) -> Any:
        attribute = paths.get(id(module), ""), name
        if attribute in attributes and attribute not in written:
            read.add(attribute)
        return object.__getattribute__(module, name)

    def put(module: nn.Module, name: str, value: Any) -> None:
        if not isinstance(value, nn.Module):  # another module has other parameters
            written.add((paths.get(id(module), ""), name))
        set_attribute(module, name, value)

    with (
        mock.patch.object(nn.Module, "__getattribute__", get, create=True),
        mock.patch.object(nn.Module, "__setattr__", put),
    ):
        yield read


def check_gradients_mode(model: nn.Module, reads: Sequence[str], run: Callable[[], object]) -> None:
    """Raise an error if the forward computes something else without gradients; `reads` are the lines."""
    results = []
    for enabled in (True, False) if reads else ():
        with unchanged(model), torch.set_grad_enabled(enabled):
            results.append(run())
    if reads and results[0] != results[1]:
        raise CarriedStateError(
            f"{type(model).__name__} computes something else without gradients{reads[-1]}, and a graph does "
            "not; keep the module that does so as one node with leaf_modules=(Class,)"
        )


def random_numbers(*, of_torch: bool = False) -> bytes:
    """Return the state of the generators of random numbers."""
    others = pickle.dumps((random.getstate(), np.random.get_state()))
    return others + torch.get_rng_state().numpy().tobytes() if of_torch else others


@contextmanager
def no_random_numbers(model: nn.Module, run: Callable[[], object], *, of_torch: bool = False) -> Iterator[None]:
    """Raise an error at the end if random numbers were drawn: they would be constants. `run` runs the forward."""
    before = random_numbers(of_torch=of_torch)
    yield
    now = random_numbers(of_torch=of_torch)
    if now == before:
        return
    line = first_line(model, run, lambda _: random_numbers(of_torch=of_torch) != now)
    raise CarriedStateError(
        f"{type(model).__name__} draws random numbers{line}, which would be the same in each call of a graph; draw "
        "them with a function of torch that depends on the input, such as torch.rand_like, or keep the module as "
        "one node with leaf_modules=(Class,)"
    )


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Restore all generators of random numbers at the end."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def first_line(model: nn.Module, run: Callable[[], object], is_changed: Callable[[ModelState], bool]) -> str:
    """Return the line of the model's code that makes the first change, such as `, net.py:12: ...`, or ''."""
    lines = [""]

    def is_own(frame: FrameType) -> bool:
        if frame.f_code.co_filename == "<string>" or is_library(frame.f_code.co_filename):
            return False
        return str(frame.f_globals.get("__name__")).partition(".")[0] not in sys.stdlib_module_names

    def watch(frame: FrameType, event: str, argument: Any) -> Any:
        if not is_own(frame):
            return None
        if is_changed(state):
            sys.settrace(None)
            return None
        place = frame.f_back if event == "return" else frame
        if event in ("line", "return") and place is not None and is_own(place):
            lines[0] = code_at(place.f_code.co_filename, place.f_lineno)
        return watch

    before = sys.gettrace()
    with unchanged(model) as state:
        sys.settrace(watch)
        try:
            run()
        finally:
            sys.settrace(before)
    return lines[0]
