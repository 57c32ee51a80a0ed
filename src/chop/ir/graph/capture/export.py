"""Capturing a model with torch.export."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.both_modes import gradients_mode_reads, mode_reads
from chop.ir.graph.capture.buffer_updates import (
    KEEP_STATISTICS,
    assign_at_the_end,
    check_aliases,
    writes_to_attributes,
)
from chop.ir.graph.capture.carried_state import check_attributes, check_gradients_mode, no_random_numbers
from chop.ir.graph.capture.dynamic_sizes import (
    captured_sizes,
    check_sizes_of_one,
    copied,
    free_axes,
    has_lengths,
    holds_for_its_ranges,
    rows_are_fixed,
)
from chop.ir.graph.capture.errors import (
    DependsOnValuesError,
    ExportError,
    ModelFailsError,
    depends_on_values,
    first_sentence,
    no_messages_of_torch,
    source_line,
)
from chop.ir.graph.capture.exported_nodes import STACK, inline, operator_name, raise_modules
from chop.ir.graph.capture.mode_of_functions import bind_to_training, calls_that_may_follow_the_mode, recorded_runs
from chop.ir.graph.capture.signature import register_dataclasses, restore_inputs, with_dataclasses
from chop.ir.graph.input_sizes import CAPTURED_SIZES
from chop.ir.graph.model_state import Attribute, ModelState, join, unchanged
from chop.ir.graph.training_mode import BY_MODE, CONSTANT, EVALUATION_ONLY, MODE_OF

logger = logging.getLogger(__name__)

_KEPT = (STACK, CONSTANT, "stack_trace", BY_MODE, MODE_OF, EVALUATION_ONLY, CAPTURED_SIZES)
"""What stays of the `meta` of a node."""


def export(model: nn.Module, inputs: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...] = ()) -> fx.Graph:
    """Return the graph of the model's forward in evaluation, with calls of its layers.

    Values in `inputs` that are not tensors are fixed. Constants of the graph are stored in `model`.
    """
    with _in_evaluation(model) as changed:
        runs = partial(recorded_runs, model, inputs, False)
        with mode_reads() as reads, gradients_mode_reads() as lines, no_random_numbers(model, runs):
            program = _export(model, inputs)
            graph = _flat_graph(program, model, inputs)
        assigned = _assign_buffers(graph)
        updates_buffers = bool(assigned) or writes_to_attributes(graph, model)
        changed = {each for each in changed if join(*each) not in assigned}
        check_attributes(model, changed, lambda: runs()[0].computed)
        check_gradients_mode(model, lines, lambda: runs()[0].computed)
        calls = calls_that_may_follow_the_mode(graph)
        raise_modules(graph, model, leaf_modules)
        graph.eliminate_dead_code(  # layers may update statistics in training
            lambda node: (
                node.op == "call_module" or operator_name(node.target) in KEEP_STATISTICS or bool(node.is_impure())
            )
        )
        bind_to_training(calls, graph, model, inputs, reads)
        graph = _tidy(graph)
        if program.range_constraints:  # some sizes are free
            check_sizes_of_one(graph, model, inputs)
    if updates_buffers:
        check_aliases(model)
    return graph


def _assign_buffers(graph: fx.Graph) -> set[str]:
    """Let the graph assign the buffers for which torch.export adds copies at its end; return these.

    It adds them for buffers that the forward assigns, but only for those of the outermost module.
    """
    copies = [node for node in graph.nodes if node.name.startswith("copy__default") and not node.users]
    assigned = {str(node.args[0].target): node.args[1] for node in copies}
    assign_at_the_end(graph, assigned)
    for node in copies:
        graph.erase_node(node)
    return set(assigned)


def _export(model: nn.Module, inputs: Mapping[str, Any]) -> ExportedProgram:
    """Export for any number of rows and any length if possible, else any number of rows, else fixed sizes."""
    for lengths in (True, False) if has_lengths(inputs) else (False,):
        try:
            program = _exported(model, _with_two_rows(inputs), free_axes(inputs, lengths=lengths))
        except Exception:  # torch.export raises errors of many kinds
            logger.debug("torch.export with free rows%s", " and lengths" * lengths, exc_info=True)
            continue
        if holds_for_its_ranges(program, inputs, lengths=lengths):
            if rows_are_fixed(program):
                logger.warning("the graph of %s is fixed to the rows of example_inputs", type(model).__name__)
            return program
    try:
        program = _exported(model, inputs, None)
    except Exception as error:
        try:
            with unchanged(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
                model(**copied(dict(inputs)))
        except Exception as own:
            raise ModelFailsError(
                f"{type(model).__name__} itself fails on example_inputs{source_line(own)}: {first_sentence(own)}"
            ) from own
        raise (DependsOnValuesError if depends_on_values(error) else ExportError)(
            f"torch.export cannot capture {type(model).__name__}{source_line(error)}: {first_sentence(error)}"
        ) from error
    logger.warning("the graph of %s is fixed to the shapes of example_inputs", type(model).__name__)
    return program


def _exported(model: nn.Module, inputs: Mapping[str, Any], shapes: dict[str, Any] | None) -> ExportedProgram:
    printed = StringIO()  # unfinished graphs, and what the model itself writes
    try:
        with torch.no_grad(), warnings.catch_warnings(), redirect_stderr(printed), no_messages_of_torch():
            warnings.simplefilter("ignore")
            # Of an input that is a view, a program would be fixed to the sizes of the whole tensor.
            return torch.export.export(model, (), copied(dict(inputs)), dynamic_shapes=shapes, strict=False)
    finally:
        if printed.getvalue():
            logger.debug("printed during torch.export: %s", printed.getvalue())


def _with_two_rows(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return inputs of one row with the row twice: torch.export takes a batch of one row as a constant."""
    batches = [leaf for leaf in pytree.tree_leaves(dict(inputs)) if isinstance(leaf, Tensor) and leaf.dim()]
    if not all(len(batch) == 1 for batch in batches):
        return inputs
    double: Mapping[str, Any] = pytree.tree_map_only(
        Tensor, lambda tensor: torch.cat([tensor, tensor]) if tensor.dim() else tensor, dict(inputs)
    )
    return double


@contextmanager
def _in_evaluation(model: nn.Module) -> Iterator[set[Attribute]]:
    """Set evaluation mode, switch off what cannot be exported, and let dataclasses be returned.

    Yield a set to which the attributes are added that differ after a run; torch.export itself restores them.
    """
    changed: set[Attribute] = set()
    with unchanged(model):
        for module in model.modules():
            config: Any = getattr(module, "config", None)
            if getattr(config, "use_cache", None) is True:
                config.use_cache = False  # language models of transformers would return their cache
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            vars(model)[name].clear()  # the graph gets those of the model itself
        tensors: dict[Attribute, Any] = {}  # torch.export puts tensors without data in their place

        def note_changes(*_: Any) -> None:
            changed.update(state.replaced() - tensors.keys())
            changed.update(each for each, tensor in _registered(model).items() if tensors.get(each) is not tensor)

        model.register_forward_pre_hook(lambda *_: tensors.update(_registered(model)))
        model.register_forward_hook(note_changes)
        model.register_forward_hook(lambda _, given, output: register_dataclasses(output))
        model.eval()
        state: ModelState = ModelState(model)
        yield changed


def _registered(model: nn.Module) -> dict[Attribute, Any]:
    """Return the parameters and buffers; some may be None."""
    parts = model.named_modules()
    return {(path, name): each for path, part in parts for name, each in (part._parameters | part._buffers).items()}


def _flat_graph(program: ExportedProgram, model: nn.Module, inputs: Mapping[str, Any]) -> fx.Graph:
    """Return the program as a graph with the model's inputs and outputs; its state becomes attributes."""
    graph = fx.Graph()
    sources: list[fx.Node] = []
    flat_inputs: list[fx.Node] = []
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            sources.append(graph.placeholder(node.name))
            flat_inputs.append(sources[-1])
        else:
            sources.append(_attribute(graph, model, program, str(spec.target)))
        sources[-1].meta["val"] = node.meta.get("val")
    flat_output = inline(graph, program.graph_module, sources)
    spec_of_output = program.call_spec.out_spec
    assert spec_of_output is not None, "an exported program has the structure of its output"
    graph.output(with_dataclasses(graph, pytree.tree_unflatten(list(flat_output), spec_of_output)))
    restore_inputs(graph, flat_inputs, inputs, captured_sizes(program, inputs))
    for node in graph.nodes:
        stack = node.meta.get(STACK) or {}  # as torch.fx has it, by path; the second call of `fc` is `fc@1`
        node.meta[STACK] = {key.removeprefix("L__self__"): value for key, value in stack.items()}
    return graph


def _attribute(graph: fx.Graph, model: nn.Module, program: ExportedProgram, target: str) -> fx.Node:
    """Return a node that reads a parameter, a buffer or a constant; constants are stored in the model."""
    try:
        value = attrgetter(target)(model)
    except AttributeError:
        value = program.constants[target]
        target = next(
            name for i in range(len(vars(model)) + 1) if (name := f"_tensor_constant{i}") not in vars(model)
        )
        setattr(model, target, value)
        node = graph.get_attr(target)
        node.meta[CONSTANT] = value
    else:
        node = graph.get_attr(target)
    node.meta["attribute"] = value
    return node


def _tidy(graph: fx.Graph) -> fx.Graph:
    """Return the graph with attributes before their first readers, and nodes numbered by what they call."""
    for node in list(graph.nodes):
        if node.op == "get_attr":
            min(node.users).prepend(node)
    tidy = fx.Graph()
    made: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
        name = operator_name(node.target) if node.op == "call_function" else None
        made[node] = tidy.create_node(node.op, node.target, args, kwargs, name)
        made[node].meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
    tidy.lint()
    return tidy
