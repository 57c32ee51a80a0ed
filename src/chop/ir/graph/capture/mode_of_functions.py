"""Functions in an exported graph whose arguments follow the mode of their module, such as dropout.

The graph is exported in evaluation mode. A run of the model in training mode shows which arguments differ, and
whether anything else does.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.both_modes import ModeRead, for_evaluation, mode_reads
from chop.ir.graph.capture.carried_state import random_numbers
from chop.ir.graph.capture.errors import first_sentence, no_messages_of_torch, source_line
from chop.ir.graph.capture.inline import operator_name
from chop.ir.graph.capture.own_calls import own_calls
from chop.ir.graph.model_state import ModelState, unchanged
from chop.ir.graph.training_mode import BY_MODE, EVALUATION_ONLY, MODE_OF, innermost_module

logger = logging.getLogger(__name__)

_NAMES = frozenset(
    (
        *("dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu"),
        *("batch_norm", "instance_norm", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"),
    )
)

RecordedCall = tuple[str, tuple[Any, ...], dict[str, Any]]
"""The name of a function, and its arguments."""


def calls_that_may_follow_the_mode(graph: fx.Graph) -> list[fx.Node]:
    """Return the nodes that call functions such as dropout, in order."""
    calls = (node for node in graph.nodes if isinstance(node.target, OpOverload))
    return [node for node in calls if operator_name(node.target) in _NAMES]


def bind_to_training(
    calls: list[fx.Node], graph: fx.Graph, model: nn.Module, inputs: Mapping[str, Any], reads: Sequence[ModeRead]
) -> None:
    """Let the arguments of calls follow the mode, where they differ in a run of the model in training mode.

    `calls` are those of the whole graph, in order; some may have been replaced by calls of layers. If more differs,
    the graph is for evaluation only. That is checked if the model's own code reads the mode.
    """
    remaining = set(graph.nodes)
    if remaining.isdisjoint(calls) and not reads and not _hides_dropout(graph, model):
        return
    try:
        with unchanged(model), torch.no_grad():
            *evaluated, trained = recorded_runs(model, inputs, *((False, True) if reads else (True,)))
    except Exception as error:  # noqa: BLE001 - a model's own code may raise anything
        line, problem = source_line(error), first_sentence(error)
        graph.output_node().meta[EVALUATION_ONLY] = {"": line}
        logger.warning(
            "%s fails in training mode on example_inputs%s: %s; its graph is for evaluation only",
            *(type(model).__name__, line, problem),
        )
        return
    differ = [operator_name(node.target) for node in calls] != [name for name, _, _ in trained.functions]
    difference = None
    if evaluated:
        reads, differ = evaluated[0].reads, differ or evaluated[0].computed != trained.computed
        pairs = zip(evaluated[0].calls, trained.calls, strict=False)
        difference = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if differ:
        for_evaluation(graph, model, reads, difference)
        return
    for node, (_, args, kwargs) in zip(calls, trained.functions, strict=True):
        if node in remaining:
            _bind(node, args, kwargs)


def _hides_dropout(graph: fx.Graph, model: nn.Module) -> bool:
    """Whether an attention that is not a node calls dropout in training only, so that the graph lacks the call."""
    nodes = {str(node.target) for node in graph.nodes if node.op == "call_module"}
    attentions = ((path, each) for path, each in model.named_modules() if isinstance(each, nn.MultiheadAttention))
    return any(each.dropout and path not in nodes for path, each in attentions)


def _bind(node: fx.Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Let the arguments of a node follow the mode that differ from those in training."""
    function: Any = node.target
    in_evaluation, in_training = _by_name(function, node.args, node.kwargs), _by_name(function, args, kwargs)
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


class RecordedRun(NamedTuple):
    """What was called in a run of a model."""

    functions: list[RecordedCall]
    """The calls of functions that may follow the mode."""
    calls: list[Hashable]
    """The calls of the model's own code."""
    computed: list[Hashable]
    """How outputs were computed from these calls, and whether other random numbers than torch's were drawn."""
    reads: list[ModeRead]
    """The reads of the mode in the model's own code."""


def recorded_runs(model: nn.Module, inputs: Mapping[str, Any], *modes: bool) -> list[RecordedRun]:
    """Run a model once in each of these modes: on tensors without data, or on the inputs if that fails.

    After the last run the model is not restored.
    """
    before = ModelState(model)
    try:
        runs = []
        for mode in modes:
            with no_messages_of_torch(), FakeTensorMode(allow_non_fake_inputs=True) as fake:
                runs.append(_recorded_run(model, inputs, fake.from_tensor, mode, before))
        return runs
    except Exception:  # a model's own code may raise anything
        logger.debug("recording calls on tensors without data", exc_info=True)
    return [_recorded_run(model, inputs, torch.clone, mode, before) for mode in modes]


def _recorded_run(
    model: nn.Module, given: Mapping[str, Any], copy: Callable[[Tensor], Tensor], mode: bool, before: ModelState
) -> RecordedRun:
    before.restore()
    model.train(mode)
    inputs = pytree.tree_map_only(Tensor, copy, dict(given))
    with (
        _recorded() as functions,
        own_calls(model, inputs) as own,
        mode_reads(lambda: len(own.calls)) as reads,
    ):
        state = random_numbers()
        model(**inputs)
    is_random = random_numbers() != state
    return RecordedRun(functions, own.calls, [*own.computed, is_random], reads)


@contextmanager
def _recorded() -> Iterator[list[RecordedCall]]:
    """Yield a list to which calls are added, with name and arguments."""
    calls: list[RecordedCall] = []
    with ExitStack() as stack:
        for owner in (torch, torch._VF, F):
            for name in _NAMES:
                original = getattr(owner, name, None)
                if isinstance(original, types.BuiltinFunctionType):
                    stack.enter_context(mock.patch.object(owner, name, partial(_record, calls, name, original)))
        yield calls


def _record(calls: list[RecordedCall], name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    calls.append((name, args, kwargs))
    return function(*args, **kwargs)
