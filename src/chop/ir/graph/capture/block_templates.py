"""Repeated blocks in an exported program: torch.export traces two of each kind.

One node takes the place of each later block during the export; then the nodes of the second block, the template,
are copied in its place.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload

from chop.ir.graph.capture.raise_modules import STACK
from chop.ir.graph.capture.repeated_blocks import empty_like

_WITHOUT_GRADIENT = "CompositeExplicitAutograd"
_TEMPLATE = 4
"""The position of the path of the template among the arguments of `repeated_block`."""


class NotRepeatedError(Exception):
    """Blocks that seem to repeat, but whose nodes cannot be copied."""


class _Operators(NamedTuple):
    boundary: OpOverload
    """Notes the nodes of tensors: some operators return the tensor that they are given, whose node then changes."""
    repeated_block: OpOverload
    """Takes the place of a block."""
    library: torch.library.Library
    """The operators live as long as their library."""


@cache
def _operators() -> _Operators:
    library = torch.library.Library("chop", "FRAGMENT")
    library.define("boundary(Tensor[] tensors) -> Tensor")
    arguments = "Tensor[] inputs, Tensor start, Tensor end, Tensor[] like, str template, str block"
    library.define(f"repeated_block({arguments}) -> Tensor[]")
    library.impl("boundary", lambda tensors: tensors[0].new_empty(()), _WITHOUT_GRADIENT)
    library.impl("repeated_block", _like, _WITHOUT_GRADIENT)
    return _Operators(torch.ops.chop.boundary.default, torch.ops.chop.repeated_block.default, library)


def _like(
    inputs: list[Tensor], start: Tensor, end: Tensor, like: list[Tensor], template: str, block: str
) -> list[Tensor]:
    return empty_like(like)


class TemplateRecorder:
    """Adds a node to the program that is being traced in place of each block that does not run."""

    runs = 2  # the first may create sizes that all later ones read

    def __init__(self) -> None:
        self.replaced = 0

    def start(self, inputs: list[Tensor]) -> Tensor:
        """Return the result of a node that has the nodes of the inputs."""
        result: Tensor = _operators().boundary(inputs)
        return result

    def end(self, path: str, start: Tensor, outputs: list[Tensor]) -> tuple[Tensor, Tensor, str]:
        """Return the results of nodes that have the inputs and outputs of a block, and its path."""
        return start, _operators().boundary(outputs), path

    def repeat(
        self, recorded: tuple[Tensor, Tensor, str], path: str, inputs: list[Tensor], outputs: list[Tensor]
    ) -> list[Tensor]:
        """Return the results of a node that takes the place of a block."""
        start, end, template = recorded
        self.replaced += 1
        results: list[Tensor] = _operators().repeated_block(inputs, start, end, outputs, template, path)
        return results


def copy_templates(graph: fx.Graph, model: nn.Module) -> None:
    """Replace each node that takes the place of a block by copies of the nodes of its template."""
    boundary, operator, _ = _operators()
    attributes = {id(node.meta["attribute"]): node for node in graph.nodes if "attribute" in node.meta}
    replaced = [node for node in graph.nodes if node.target is operator]
    templates: dict[str, list[fx.Node]] = {str(node.args[_TEMPLATE]): [] for node in replaced}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is not boundary:
            for path in (node.meta.get(STACK) or {}).keys() & templates.keys():
                templates[path].append(node)
    for node in replaced:
        path, block = map(str, node.args[_TEMPLATE:])
        _copy(graph, node, templates[path], _own_attributes(model, path, block, attributes))
    for node in reversed(graph.nodes):
        if node.target is boundary:
            graph.erase_node(node)


def _copy(graph: fx.Graph, node: fx.Node, template: list[fx.Node], made: dict[fx.Node, fx.Node]) -> None:
    """Replace one node; `made` are the nodes that read tensors of the block, by those of the template."""
    arguments: Any = node.args
    inputs, start, end, _, path, block = arguments
    made.update(zip(start.args[0], inputs, strict=True))
    for each in template:
        if each.target is node.target:
            raise NotRepeatedError(f"'{path}' contains repeated blocks")
        sources = (source for source in each.all_input_nodes if source not in made)
        if any(isinstance(source.meta.get("val"), Tensor) and "attribute" not in source.meta for source in sources):
            raise NotRepeatedError(f"'{path}' reads tensors that are not among its inputs")
        with graph.inserting_before(node):
            made[each] = graph.node_copy(each, lambda source: made.get(source, source))
        made[each].meta = {**each.meta, STACK: _stack(node, each, path, block)}
    outputs = end.args[0]
    if any(output not in made for output in outputs):
        raise NotRepeatedError(f"'{path}' returns tensors that it does not make")
    for reader in list(node.users):
        reader.replace_all_uses_with(made[outputs[reader.args[1]]])
        graph.erase_node(reader)
    graph.erase_node(node)


def _own_attributes(
    model: nn.Module, path: str, block: str, attributes: dict[int, fx.Node]
) -> dict[fx.Node, fx.Node]:
    """Return the nodes that read the tensors of a block, by those that read the same tensors of its template."""
    made: dict[fx.Node, fx.Node] = {}
    parts = (model.get_submodule(each).named_modules(remove_duplicate=False) for each in (path, block))
    for (_, theirs), (_, ours) in zip(*parts, strict=True):
        for tensors, own in ((theirs._parameters, ours._parameters), (theirs._buffers, ours._buffers)):
            for name, tensor in tensors.items():
                if id(tensor) in attributes:
                    if id(own[name]) not in attributes:
                        raise NotRepeatedError(f"'{name}' of '{block}' is not exported")
                    made[attributes[id(tensor)]] = attributes[id(own[name])]
    return made


def _stack(node: fx.Node, template_node: fx.Node, path: str, block: str) -> dict[str, tuple[str, Any]]:
    """Return the calls that a copied node is in: those of the block, and those in the template."""
    stack = dict(node.meta[STACK])
    calls = list(template_node.meta[STACK].items())
    inner = calls[[call for call, _ in calls].index(path) + 1 :]
    return stack | {call.replace(path, block, 1): (of.replace(path, block, 1), kind) for call, (of, kind) in inner}
