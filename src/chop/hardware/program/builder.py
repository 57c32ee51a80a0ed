"""The program while it is built: which instruction holds the result of each node, and in which format."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from chop.hardware.program.instructions import InputPort, Instruction, LookUp, align, requantize
from chop.hardware.program.number_formats import data_signal
from chop.hardware.program.program import Program
from chop.hardware.program.signal import ExactRounding, Signal
from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.ops import Op

PASSED_ON = ("dropout", "identity", "contiguous", "clone", "detach")
"""Ops that return their input."""
MOVES = (*PASSED_ON, "flatten", "view", "reshape", "permute", "transpose", "squeeze", "unsqueeze")
"""Ops that return the elements of their input, in another order or shape."""
Wanted = tuple[Signal, ExactRounding]
"""The integers that a value is to be rounded to, and how."""


class ProgramBuilder:
    """Adds instructions node by node."""

    def __init__(self, graph: MaseGraph) -> None:
        self.metas = {meta.node: meta for meta in graph.annotated_metas()}
        self.instructions: dict[str, Instruction] = {}
        self.values: dict[fx.Node, str] = {}
        self.functions: dict[fx.Node, PendingFunction] = {}
        """Functions of one element that become a table once the format of their result is known."""

    def operand(self, meta: NodeMeta, name: str = "data_in_0") -> tuple[str, Signal]:
        """Return the instruction that holds an operand of a node, in the operand's format, and its integers."""
        sources = {key: source for key, _, source in bound_operands(meta)}
        held = self.read(meta, sources[name], name)
        return held, self.instructions[held].out

    def read(self, meta: NodeMeta, source: Any, name: str = "") -> str:
        """Return the instruction that holds the result of `source` in the format that `meta` reads it in."""
        if not isinstance(source, fx.Node) or source.op == "get_attr":
            where = name or "result"
            raise ValueError(f"node '{meta.node.name}': hardware supports no constant as '{where}', got '{source}'")
        wanted = data_signal(meta, name, one_row(self.metas[source])) if name else None
        if source in self.functions:
            self.functions[source].become_table(self, wanted, f"{meta.node.name}_{name}")
        held = self.values[source]
        return held if wanted is None else self._requantized(meta.node, held, wanted, name)

    def finish(self, meta: NodeMeta, instruction: Instruction) -> None:
        """Add the instruction of a node, and round its result if it has a format."""
        self.instructions[instruction.name] = instruction
        self.values[meta.node] = instruction.name
        wanted = data_signal(meta, "data_out_0", instruction.out.shape)
        if wanted is not None:
            self.values[meta.node] = self._requantized(meta.node, instruction.name, wanted, "data_out_0")

    def add_input(self, meta: NodeMeta) -> None:
        """Add the input port, in the format of the nodes that read it."""
        if self.instructions:
            raise ValueError(f"hardware needs a model with one input; '{meta.node.name}' is another one")
        shape = one_row(meta)
        readers = self._readers(meta)
        wanted = [data_signal(reader, name, shape) for reader, name in readers]
        known = {(*(a.tobytes() for a in (w[0].frac, w[0].low, w[0].high)), w[1]) for w in wanted if w}
        if len(known) != 1 or None in wanted:
            names = ", ".join(f"'{reader.node.name}'" for reader, _ in readers)
            raise ValueError(
                f"input '{meta.node.name}' needs one number format: the same data_in format for {names or 'a node'}"
            )
        signal, rounding = next(each for each in wanted if each)
        name = self.values[meta.node] = meta.node.name
        self.instructions[name] = InputPort(name=name, node=name, reads=(), out=signal, rounding=rounding)

    def aligned(self, held: str) -> str:
        """Return the instruction that holds a result with the same fraction bits for all elements."""
        made = align(f"{held}_aligned", self.instructions[held].node, held, self.instructions[held].out)
        if made is None:
            return held
        self.instructions[made.name] = made
        return made.name

    def _readers(self, source: NodeMeta) -> list[tuple[NodeMeta, str]]:
        """Return the nodes that read a result, and as which operand, past those that only move it."""
        found: list[tuple[NodeMeta, str]] = []
        for user in source.node.users:
            reader = self.metas[user]
            for name in _operands_from(reader, source):
                moves = reader.mase_op in MOVES and data_signal(reader, name, ()) is None
                found += self._readers(reader) if moves else [(reader, name)]
        return found

    def _requantized(self, node: fx.Node, held: str, wanted: Wanted, name: str) -> str:
        new = f"{node.name}_{name}"
        made = requantize(new, node.name, held, self.instructions[held].out, *wanted)
        if made is None:
            return held
        self.instructions[new] = made
        return new


class PendingFunction:
    """A function of one element whose results still need a format."""

    def __init__(self, meta: NodeMeta, read: str, inputs: Tensor) -> None:
        self.meta, self.read, self.inputs = meta, read, inputs

    def become_table(self, builder: ProgramBuilder, wanted: Wanted | None, reader: str) -> None:
        """Add the table, with results in the format of the node itself, or else of the node that reads it."""
        meta, node = self.meta, self.meta.node
        before = builder.instructions[self.read].out
        own = data_signal(meta, "data_out_0", before.shape)
        chosen = own or wanted
        if chosen is None:
            raise ValueError(
                f"node '{node.name}': the result of '{meta.mase_op}' has no format; give the node data_out_width "
                "and data_out_frac_width"
            )
        signal, rounding = chosen
        if any((each != each.flat[0]).any() for each in (signal.frac, signal.low, signal.high)):
            raise ValueError(
                f"node '{node.name}': the results of '{meta.mase_op}' have different formats; give the node "
                "data_out_width and data_out_frac_width"
            )
        frac, low, high = (int(each.flat[0]) for each in (signal.frac, signal.low, signal.high))
        others = [argument for argument in node.args[1:] if not isinstance(argument, fx.Node)]
        with torch.no_grad():
            results = plain_target(meta)(self.inputs, *others, **node.kwargs).double().numpy()
        port = InputPort(name="", node="", reads=(), out=Signal.uniform((1,), frac, low, high), rounding=rounding)
        table = Program({"": port}, "").quantize(results.reshape(-1, 1)).ravel()
        name = node.name if own else f"{reader}_table"
        builder.instructions[name] = LookUp(
            name=name,
            node=node.name,
            reads=(self.read,),
            out=Signal.uniform(before.shape, frac, int(table.min()), int(table.max())),
            function=meta.mase_op,
            first=int(before.low.min()),
            table=table,
        )
        builder.values[node] = name


def one_row(meta: NodeMeta) -> tuple[int, ...]:
    """Return the shape of a node's result for one row."""
    return tuple(meta.results["data_out_0"].shape[1:])


def bound_operands(meta: NodeMeta) -> list[tuple[str, Any, Any]]:
    """Return name, operand and value of each argument of a node that is an operand of its op."""
    assert isinstance(meta.op, Op), "only ops have operands"
    return list(meta.op.bound(meta.node.args, meta.node.kwargs))


def plain_target(meta: NodeMeta) -> Any:
    """Return the function that a node calls without formats."""
    layer, target = meta.module, meta.node.target
    if isinstance(layer, QuantizedLayer):
        return lambda *args, **kwargs: layer.base_class.forward(layer, *args, **kwargs)
    if layer is not None:
        return layer
    if isinstance(target, QuantizedCall):
        return target.function
    return getattr(torch.Tensor, target) if isinstance(target, str) else target


def _operands_from(reader: NodeMeta, source: NodeMeta) -> list[str]:
    """Return the operands of `reader` that are the result of `source`."""
    if reader.op is None:
        return [""]
    return [name for name, _, value in bound_operands(reader) if value is source.node] or [""]
