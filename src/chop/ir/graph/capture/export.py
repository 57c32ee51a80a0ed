"""Capturing a model with torch.export."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from chop.garbage import without_garbage_collection
from chop.ir.graph.capture.block_templates import NotRepeatedError, TemplateRecorder, copy_templates
from chop.ir.graph.capture.dynamic_sizes import captured_sizes, conditions_are_ranges, free_axes, has_lengths
from chop.ir.graph.capture.errors import ExportError, first_sentence, no_messages_of_torch, source_line
from chop.ir.graph.capture.inline import inline, operator_name
from chop.ir.graph.capture.mode_of_functions import bind_to_training, calls_that_may_follow_the_mode
from chop.ir.graph.capture.raise_modules import STACK, raise_modules
from chop.ir.graph.capture.repeated_blocks import repeated_blocks
from chop.ir.graph.capture.signature import register_dataclasses, restore_inputs, restore_output
from chop.ir.graph.capture.sizes_of_one import check_sizes_of_one
from chop.ir.graph.input_sizes import CAPTURED_SIZES
from chop.ir.graph.training_mode import BY_MODE, MODE_OF

logger = logging.getLogger(__name__)

_KEPT = (STACK, "stack_trace", BY_MODE, MODE_OF, CAPTURED_SIZES)
"""What stays of the `meta` of a node."""


def export(model: nn.Module, inputs: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...] = ()) -> fx.Graph:
    """Return the graph of the model's forward in evaluation, with calls of its layers.

    Values in `inputs` that are not tensors are fixed. Constants of the graph are stored in `model`.
    """
    with _in_evaluation(model):
        program, graph = _exported_graph(model, inputs)
        calls = calls_that_may_follow_the_mode(graph)
        raise_modules(graph, model, leaf_modules)
        graph.eliminate_dead_code(lambda node: node.op == "call_module" or node.is_impure())
        bind_to_training(calls, model, inputs)
        graph = _tidy(graph)
        if program.range_constraints:  # some sizes are free
            check_sizes_of_one(graph, model, inputs)
    return graph


def _exported_graph(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[ExportedProgram, fx.Graph]:
    """Return the exported program, and its nodes with those of repeated blocks."""
    program = _export(model, inputs)
    graph = _flat_graph(program, model, inputs)
    try:
        copy_templates(graph, model)
    except NotRepeatedError as error:
        logger.debug("every block is exported: %s", error)
        program = _export(model, inputs, repeat=False)
        graph = _flat_graph(program, model, inputs)
    return program, graph


def _export(model: nn.Module, inputs: Mapping[str, Any], *, repeat: bool = True) -> ExportedProgram:
    """Export for any number of rows and any length if possible, else any number of rows, else fixed sizes.

    With `repeat`, only two blocks of each kind are traced.
    """
    for lengths in (True, False) if has_lengths(inputs) else (False,):
        try:
            program = _exported(model, _with_two_rows(inputs), free_axes(inputs, lengths=lengths), repeat)
        except Exception:  # torch.export raises errors of many kinds
            logger.debug("torch.export with free rows%s", " and lengths" * lengths, exc_info=True)
            continue
        if not lengths or conditions_are_ranges(program):
            return program
    try:
        program = _exported(model, inputs, None, repeat)
    except Exception as error:
        raise ExportError(
            f"torch.export cannot capture {type(model).__name__}{source_line(error)}: {first_sentence(error)}"
        ) from error
    logger.warning("the graph of %s is fixed to the shapes of example_inputs", type(model).__name__)
    return program


def _exported(
    model: nn.Module, inputs: Mapping[str, Any], shapes: dict[str, Any] | None, repeat: bool
) -> ExportedProgram:
    if repeat:
        recorder = TemplateRecorder()
        try:
            with repeated_blocks(model, recorder):
                return _exported(model, inputs, shapes, repeat=False)
        except Exception:  # torch.export raises errors of many kinds
            if not recorder.replaced:
                raise
            logger.debug("torch.export with repeated blocks", exc_info=True)
    printed = StringIO()  # unfinished graphs, and what the model itself writes
    quiet = redirect_stderr(printed)
    try:
        with (
            torch.no_grad(),
            warnings.catch_warnings(),
            quiet,
            no_messages_of_torch(),
            _fast_export(inputs, shapes),
        ):
            warnings.simplefilter("ignore")
            return torch.export.export(model, (), dict(inputs), dynamic_shapes=shapes, strict=False)
    finally:
        if printed.getvalue():
            logger.debug("printed during torch.export: %s", printed.getvalue())


@contextmanager
def _fast_export(inputs: Mapping[str, Any], shapes: dict[str, Any] | None) -> Iterator[None]:
    """Pause the garbage collector; with free lengths, let torch not remember the shapes of results.

    It rarely finds them again, because most calls have other expressions as sizes, and keeping them takes longer.
    """
    from torch._dynamo import config  # takes long to import

    remember = shapes is None or shapes == free_axes(inputs, lengths=False)
    with without_garbage_collection(), config.patch(fake_tensor_cache_enabled=remember):
        yield


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
def _in_evaluation(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode, switch off what cannot be exported, and let dataclasses be returned."""
    modes = [(module, module.training) for module in model.modules()]
    with ExitStack() as stack:
        for config in _configs_with_cache(model):  # language models of transformers would return their cache
            config.use_cache = False
            stack.callback(setattr, config, "use_cache", True)
        for module, mode in modes:
            stack.callback(setattr, module, "training", mode)
        hook = model.register_forward_hook(lambda _, given, output: register_dataclasses(output))
        stack.callback(hook.remove)
        model.eval()
        yield


def _configs_with_cache(model: nn.Module) -> list[Any]:
    """Return the configs of a model and its parts, such as a decoder, that ask for a cache."""
    configs = {id(config): config for module in model.modules() if (config := getattr(module, "config", None))}
    return [each for each in configs.values() if getattr(each, "use_cache", None) is True]


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
    restore_output(graph, list(flat_output), spec_of_output)
    restore_inputs(graph, flat_inputs, inputs, captured_sizes(program, inputs))
    for node in graph.nodes:
        node.meta[STACK] = _plain_stack(node.meta.get(STACK))
    return graph


def _attribute(graph: fx.Graph, model: nn.Module, program: ExportedProgram, target: str) -> fx.Node:
    """Return a node that reads a parameter, a buffer or a constant; constants are stored in the model."""
    try:
        value = _attribute_of(model, target)
    except AttributeError:
        value = program.constants[target]
        target = next(
            name for i in range(len(vars(model)) + 1) if (name := f"_tensor_constant{i}") not in vars(model)
        )
        setattr(model, target, value)
    node = graph.get_attr(target)
    node.meta["attribute"] = value
    return node


def _attribute_of(model: nn.Module, target: str) -> Any:
    owner, _, name = target.rpartition(".")
    return getattr(model.get_submodule(owner), name)


def _plain_stack(stack: Mapping[str, tuple[str, Any]] | None) -> dict[str, tuple[str, Any]]:
    """Return the calls that a node is in as torch.fx has them, by path; the second call of `fc` is `fc@1`."""
    return {key.removeprefix("L__self__"): value for key, value in (stack or {}).items()}


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
