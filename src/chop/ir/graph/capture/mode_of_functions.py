"""Functions in an exported graph whose arguments follow the mode of their module, such as dropout.

The graph is exported in evaluation mode. A run of the model in training mode shows which arguments differ.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.errors import no_messages_of_torch
from chop.ir.graph.capture.inline import operator_name
from chop.ir.graph.capture.repeated_blocks import empty_like, repeated_blocks
from chop.ir.graph.training_mode import BY_MODE, MODE_OF, innermost_module

logger = logging.getLogger(__name__)

_NAMES = frozenset(
    (
        *("dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu"),
        *("batch_norm", "instance_norm", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"),
    )
)

Call = tuple[fx.Node, OpOverload]
RecordedCall = tuple[str, tuple[Any, ...], dict[str, Any]]
"""The name of a function, and its arguments."""


def calls_that_may_follow_the_mode(graph: fx.Graph) -> list[Call]:
    """Return the nodes that call functions such as dropout, in order, with the functions."""
    return [
        (node, node.target)
        for node in graph.nodes
        if isinstance(node.target, OpOverload) and operator_name(node.target) in _NAMES
    ]


def bind_to_training(calls: list[Call], model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Let the arguments of calls follow the mode, where they differ in a run of the model in training mode.

    `calls` are those of the whole graph, in order; some may have been replaced by calls of layers.
    """
    remaining = [node for node, _ in calls if not node._erased]
    if not remaining:
        return
    recorded = _calls_in_training(model, inputs)
    if [function._schema.name for _, function in calls] != [f"aten::{name}" for name, _, _ in recorded]:
        logger.warning(
            "%s calls other functions in training than in evaluation; its graph is fixed to evaluation",
            type(model).__name__,
        )
        return
    for (node, function), (_, args, kwargs) in zip(calls, recorded, strict=True):
        if not node._erased:
            _bind(node, function, _by_name(function, args, kwargs))


def _bind(node: fx.Node, function: OpOverload, in_training: Mapping[str, Any]) -> None:
    in_evaluation = _by_name(function, node.args, node.kwargs)
    positions = {argument.name: i for i, argument in enumerate(function._schema.arguments)}
    by_mode: dict[int | str, tuple[Any, Any]] = {}
    for name, value in in_evaluation.items():
        other = in_training.get(name, value)
        if isinstance(value, bool | int | float) and isinstance(other, bool | int | float) and value != other:
            if positions[name] < len(node.args):
                by_mode[positions[name]] = (value, other)
            else:
                node.update_kwarg(name, value)
                by_mode[name] = (value, other)
    if by_mode:
        node.meta[BY_MODE] = by_mode
        node.meta[MODE_OF] = innermost_module(node)


def _by_name(function: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by their names in the operator, with defaults."""
    arguments = function._schema.arguments
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    return defaults | dict(zip((a.name for a in arguments), args, strict=False)) | dict(kwargs)


def _calls_in_training(model: nn.Module, inputs: Mapping[str, Any]) -> list[RecordedCall]:
    """Return the calls of one run in training mode: on tensors without data, or on the inputs if that fails."""
    with _in_training(model):
        try:
            without_data = FakeTensorMode(allow_non_fake_inputs=True)
            with no_messages_of_torch(), without_data as fake, _recorded() as calls, _repeated(model, calls):
                model(**pytree.tree_map_only(Tensor, fake.from_tensor, dict(inputs)))
        except Exception:  # a model's own code may raise anything
            logger.debug("training mode on tensors without data", exc_info=True)
            with _recorded() as calls:
                model(**pytree.tree_map_only(Tensor, torch.clone, dict(inputs)))
    return calls


def _repeated(model: nn.Module, calls: list[RecordedCall]) -> AbstractContextManager[None]:
    """Let one of each kind of block run; the others add the same calls."""
    return repeated_blocks(model, _CallRecorder(calls))


class _CallRecorder:
    """Adds the calls of a block that ran for each block that does not run."""

    runs = 1

    def __init__(self, calls: list[RecordedCall]) -> None:
        self.calls = calls

    def start(self, inputs: list[Tensor]) -> int:
        """Return the number of calls before the block."""
        return len(self.calls)

    def end(self, path: str, start: int, outputs: list[Tensor]) -> list[RecordedCall]:
        """Return the calls in the block."""
        return self.calls[start:]

    def repeat(
        self, recorded: list[RecordedCall], path: str, inputs: list[Tensor], outputs: list[Tensor]
    ) -> list[Tensor]:
        """Return tensors like the outputs of the block that ran; they have no data."""
        self.calls += recorded
        return empty_like(outputs)


@contextmanager
def _recorded() -> Iterator[list[RecordedCall]]:
    """Yield a list to which calls are added, with name and arguments."""
    calls: list[RecordedCall] = []
    with ExitStack() as stack:
        for owner in (torch, torch._VF, F):
            for name in _NAMES:
                original = getattr(owner, name, None)
                if isinstance(original, types.BuiltinFunctionType):
                    stack.enter_context(mock.patch.object(owner, name, _recording(name, original, calls)))
        yield calls


def _recording(name: str, function: Callable[..., Any], calls: list[RecordedCall]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append((name, args, kwargs))
        return function(*args, **kwargs)

    return call


@contextmanager
def _in_training(model: nn.Module) -> Iterator[None]:
    """Set training mode without gradients; at the end restore modes, buffers and the random state."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    model.train()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for buffer, before in buffers:
            buffer.copy_(before)
