"""Functions in an exported graph whose arguments follow the mode of their module, such as dropout.

The graph is exported in evaluation mode. A run of the model in training mode shows which arguments differ, and
whether anything else does.
"""

from __future__ import annotations

import inspect
import itertools
import logging
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from chop.ir.graph.capture.both_modes import ModeRead, for_evaluation, mode_reads
from chop.ir.graph.capture.carried_state import random_numbers
from chop.ir.graph.capture.errors import first_sentence, no_messages_of_torch, source_line
from chop.ir.graph.capture.exported_nodes import operator_name
from chop.ir.graph.model_state import CONSTANTS, ModelState, unchanged
from chop.ir.graph.training_mode import BY_MODE, EVALUATION_ONLY, MODE_OF, innermost_module
from chop.nn import quantized

logger = logging.getLogger(__name__)

_NAMES = frozenset(
    (
        *("dropout", "dropout_", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu"),
        *("batch_norm", "instance_norm", "scaled_dot_product_attention", "lstm", "gru", "rnn_tanh", "rnn_relu"),
    )
)
_TORCH = str(Path(torch.__path__[0]))
_LAYERS = (*(str(Path(package.__path__[0])) for package in (torch.nn, quantized)), str(Path(__file__).parents[1]))
_PASSED_THROUGH = tuple(inspect.getfile(each) for each in (torch.nn.functional, nn.Module, nn.Sequential))
"""Files in which functions and layers are called on behalf of other code."""
_DROPOUT = "dropout"
_FOLLOW_THE_MODE = (_DROPOUT, "batch_norm", "instance_norm", "attention", "rrelu")
"""Parts of the names of functions with arguments that may follow the mode."""
_DRAWS = ("rand", "uniform_")
_OPERATORS = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")


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
    run, state = RecordedRun(model, inputs), random_numbers()
    with run.recording():
        model(**inputs)
    run.computed.append(random_numbers() != state)
    return run


class RecordedRun(TorchFunctionMode):
    """What a run of a model calls outside of layers, and where the tensors given to these calls come from.

    `torch.rand` returns zeros, so that a branch such as `torch.rand([]) < p` is taken if it ever is.
    """

    def __init__(self, model: nn.Module, inputs: Mapping[str, Any]) -> None:
        super().__init__()
        self.functions: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        """The calls of functions that may follow the mode: name and arguments."""
        self.calls: list[Hashable] = []
        """The calls of functions and layers by the model's own code."""
        self.computed: list[Hashable] = []
        """How each output and each tensor that is overwritten was computed from these calls.

        At the end, whether other random numbers than torch's were drawn."""
        self.reads: list[ModeRead] = []
        """The reads of the mode in the model's own code."""
        self._model, self._paths = model, {id(module): path for path, module in model.named_modules()}
        self._origins = WeakTensorKeyDictionary()
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self._note(tensor, name)
        self._add("input", (), inputs)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is called, and the reads of modes."""
        with ExitStack() as stack:
            for owner, name in itertools.product((torch, torch._VF, F), _NAMES):
                original = getattr(owner, name, None)
                if isinstance(original, types.BuiltinFunctionType):
                    record = partial(self._call_function, name, original)
                    stack.enter_context(mock.patch.object(owner, name, record))
            stack.callback(register_module_forward_hook(self._note_layer, with_kwargs=True).remove)
            self.reads = stack.enter_context(mode_reads(lambda: len(self.calls)))
            stack.enter_context(self)
            yield

    def _call_function(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.functions.append((name, args, kwargs))
        return function(*args, **kwargs)

    def _note_layer(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module is self._model:
            self._add("output", output, (), is_effect=True)
        elif _is_own(inspect.currentframe()):
            follows = vars(module).get("training") == vars(self._model).get("training")
            name = f"{type(module).__name__} {self._paths.get(id(module))} {follows}"
            if type(module).__module__.startswith("torch."):
                self._add(name, (args, kwargs), output)
            else:  # results that the block itself did not compute, because it did not run
                results = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
                unknown = [tensor for tensor in results if tensor not in self._origins]
                self._add(name, (args, kwargs, output), unknown, is_effect=True)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        is_own = _is_own(inspect.currentframe())
        result = func(*args, **kwargs)
        if is_own:
            name = str(getattr(func, "__name__", func))
            if name in _DRAWS:
                result.zero_()
            overwrites = name.endswith("_") and (name in _OPERATORS or not name.endswith("__"))
            self._add(name, (args, kwargs), result, is_effect=overwrites)
        return result

    def _add(self, name: str, given: Any, result: Any, *, is_effect: bool = False) -> None:
        """Note a call and where its results come from; dropout returns its input in evaluation."""
        follows = any(word in name.lower() for word in _FOLLOW_THE_MODE)
        described = [
            self._describe(leaf) for leaf in pytree.tree_leaves(given) if isinstance(leaf, Tensor) or not follows
        ]
        call = (name, *described)
        self.calls.append(call)
        if is_effect:
            self.computed.append(call)
        self._note(result, described[0] if _DROPOUT in name.lower() and described else hash(call))

    def _note(self, values: Any, origin: Hashable) -> None:
        for position, tensor in enumerate(pytree.tree_leaves(values)):
            if isinstance(tensor, Tensor):
                self._origins[tensor] = (origin, position) if position else origin

    def _describe(self, value: Any) -> Hashable:
        """Return a constant, or where a tensor comes from: a parameter or buffer, or the hash of a call."""
        if isinstance(value, Tensor):
            origin: Hashable = self._origins.get(value, tuple(value.shape))
            return origin
        return value if type(value) in CONSTANTS else type(value).__name__


def _is_own(frame: FrameType | None) -> bool:
    """Whether a function or layer is called by a model's own code, as opposed to a layer."""
    frame = frame.f_back if frame is not None else None
    while frame is not None and (file := frame.f_code.co_filename).startswith(_TORCH):
        if file.startswith(_LAYERS) and file not in _PASSED_THROUGH:
            return False
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_LAYERS)
