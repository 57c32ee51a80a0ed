"""Buffers that a forward changes: the graph reads and overwrites them as the model does."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.ir.graph.capture.errors import CaptureError
from chop.ir.graph.in_place import overwritten_input, writes_in_place
from chop.ir.graph.model_state import is_plain, join
from chop.ops import op_of_function, op_of_method

_SET_ITEM = ("setitem", "__setitem__")
KEEP_STATISTICS = ("batch_norm", "instance_norm")


def assign_buffer(buffer: Tensor, value: Tensor) -> None:
    """Overwrite a buffer, as `self.buffer = value` does in a model."""
    if buffer.shape != value.shape or buffer.dtype != value.dtype:
        raise ValueError(
            f"forward assigns a tensor of shape {list(value.shape)} and type {value.dtype} to a buffer of shape "
            f"{list(buffer.shape)} and type {buffer.dtype}; a graph keeps the shape and type of a buffer"
        )
    with torch.no_grad():
        buffer.copy_(value)


fx.node.has_side_effect(assign_buffer)


def check_aliases(model: nn.Module) -> None:
    """Raise an error if a buffer shares memory with another attribute, which would not follow its updates."""
    owners: dict[int, str] = {}
    for path, module in model.named_modules():
        held = {**vars(module), **module._buffers}
        for name, tensor in held.items():
            if (
                isinstance(tensor, Tensor)
                and is_plain(tensor)
                and tensor.numel()
                and type(tensor) is not nn.Parameter
            ):
                other = owners.setdefault(tensor.untyped_storage().data_ptr(), join(path, name))
                if other != join(path, name):
                    raise CaptureError(
                        f"{type(model).__name__} changes buffers, and '{other}' and '{join(path, name)}' share "
                        "memory, which a graph does not represent; give each a tensor of its own"
                    )


def assign_at_the_end(graph: fx.Graph, values: Mapping[str, fx.Node]) -> None:
    """Let the graph overwrite buffers by the values of nodes at its end, and read copies of them before."""
    for target, value in values.items():
        readers = [node for node in graph.nodes if node.op == "get_attr" and node.target == target]
        with graph.inserting_before(graph.output_node()):
            buffer = readers[0] if readers else graph.get_attr(target)
        if readers:
            with graph.inserting_after(buffer):
                before = graph.call_method("clone", (buffer,))
            before.meta = {key: value for key, value in buffer.meta.items() if key != "attribute"}
            for reader in readers:
                reader.replace_all_uses_with(before, delete_user_cb=lambda user, kept=before: user is not kept)
        with graph.inserting_before(graph.output_node()):
            graph.call_function(assign_buffer, (buffer, before if value in readers else value))


def writes_to_attributes(graph: fx.Graph, model: nn.Module) -> bool:
    """Whether a node overwrites a tensor of the model that is not a parameter, or a part of one."""
    return any(
        source is not None and not isinstance(attrgetter(str(source.target))(model), nn.Parameter)
        for node in graph.nodes
        if node.op in ("call_function", "call_method")
        for source in _overwritten(node)
    )


def _overwritten(node: fx.Node) -> list[fx.Node | None]:
    """Return the attributes that a node may overwrite."""
    name = str(getattr(node.target, "__name__", node.target))
    if any(word in name for word in KEEP_STATISTICS):
        return [_source(each) for each in node.all_input_nodes[1:3]]
    first = overwritten_input(node) if name in _SET_ITEM or writes_in_place(node, None) else None
    return [_source(each) for each in (first, node.kwargs.get("out")) if isinstance(each, fx.Node)]


def _source(node: fx.Node) -> fx.Node | None:
    """Return the attribute whose memory the result of a node may be in."""
    while node.op != "get_attr":
        target: Any = node.target
        op = op_of_method(target) if node.op == "call_method" else op_of_function(target)
        source = overwritten_input(node)
        if source is None or (op is not None and op.quantizable and not writes_in_place(node, None)):
            return None
        node = source
    return node
