"""Unrolled units: every operation has its own adders, and a result leaves in every cycle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chop.hardware.adders import AdderGraph, solve
from chop.hardware.program import Signal
from chop.hardware.program.instructions import (
    PADDING,
    Block,
    LinearMap,
    LookUp,
    Rearrange,
    Rectify,
    Requantize,
    WindowMaximum,
)
from chop.hardware.program.signal import concatenate, shift_right, signed_width
from chop.hardware.rtl.arithmetic import (
    Rounding,
    add_graph,
    negated_plus,
    plus,
    requantized,
    saturated,
    shifted_left,
)
from chop.hardware.rtl.circuit import Circuit, ModuleText, Wire, constant, finish_module, module_text, read_elements
from chop.hardware.rtl.units import CircuitUnit, Post, shares_limits


def unrolled_modules(name: str, unit: CircuitUnit, cutoff: int, use_alkaid: bool = True) -> list[ModuleText]:
    """Return the modules of a unit; the first one is the unit itself."""
    head = unit.head
    if isinstance(head, LinearMap):
        head = replace(head, blocks=tuple(_without_unused(block, unit.out) for block in head.blocks))
        posts = [post for post in unit.posts if isinstance(post, Requantize)]
        is_regular = all(shares_limits(post, block.writes.T) for post in posts for block in head.blocks)
        if is_regular and any(len(block.reads) > 1 for block in head.blocks):
            return _repeated(name, unit, head, cutoff, use_alkaid)
    circuit = Circuit(cutoff)
    inputs = [
        wire for i, source in enumerate(unit.sources) for wire in read_elements(circuit, source, f"in{i}_data")
    ]
    wires = (
        _linear(circuit, unit, head, inputs, use_alkaid)
        if isinstance(head, LinearMap)
        else _others(circuit, unit, inputs)
    )
    return [finish_module(name, circuit, unit.sources, unit.out, wires)]


def _without_unused(block: Block, out: Signal) -> Block:
    """Return a block without the sums that are always rounded to 0, such as those before a width of 0 bits."""
    unused = ((out.low == 0) & (out.high == 0)).ravel()[block.writes].all(axis=0)
    return replace(block, matrix=np.where(unused[:, None], 0, block.matrix), bias=np.where(unused, 0, block.bias))


def _linear(
    circuit: Circuit, unit: CircuitUnit, head: LinearMap, inputs: list[Wire | None], use_alkaid: bool
) -> list[Wire | None]:
    wires: list[Wire | None] = [None] * unit.out.numel
    source = concatenate(unit.sources)
    for block in head.blocks:
        graph = solve_block(block, source, use_alkaid)
        for reads, writes in zip(block.reads, block.writes, strict=True):
            given = [None if at == PADDING else inputs[at] for at in reads]
            chains = [roundings(unit.posts, int(at)) for at in writes]
            for at, wire in zip(writes, block_results(circuit, graph, block, given, chains), strict=True):
                wires[at] = wire
    return wires


def solve_block(block: Block, source: Signal, use_alkaid: bool) -> AdderGraph:
    """Return the adders of a block, for the ranges of its inputs at all its positions."""
    lanes = _block_input(block, source)
    return solve(block.matrix, list(zip(lanes.low.tolist(), lanes.high.tolist(), strict=True)), use_alkaid)


def block_results(
    circuit: Circuit,
    graph: AdderGraph,
    block: Block,
    inputs: Sequence[Wire | None],
    posts: Sequence[list[Rounding]],
) -> list[Wire | None]:
    """Add the sums of a block and what follows them."""
    values = add_graph(circuit, graph, inputs)
    results: list[Wire | None] = []
    for output, bias, chain in zip(graph.outputs, block.bias.tolist(), posts, strict=True):
        value = None if output.value is None else values[output.value]
        summand = bias + (chain[0].offset if chain else 0)
        if value is None:
            results.append(_constant(circuit, bias, chain))
            continue
        value = shifted_left(circuit, value, output.shift)
        wire = negated_plus(circuit, value, summand) if output.negated else plus(circuit, value, summand)
        for number, rounding in enumerate(chain):
            wire = requantized(circuit, wire, rounding, offset_is_added=number == 0)
        results.append(wire)
    return results


def _constant(circuit: Circuit, bias: int, chain: Sequence[Rounding]) -> Wire | None:
    """Return a result that does not depend on the input; None if it is 0."""
    for each in chain:
        bias = int(np.clip(shift_right(np.array(bias), each.shift, each.mode), each.low, each.high))
    if bias == 0:
        return None
    width = signed_width(bias, bias)
    return circuit.assign(constant(bias, width), bias, bias, 0, 0)


def roundings(posts: Sequence[Post], element: int) -> list[Rounding]:
    """Return the requantisations of one element; ReLU before or after one raises its lower limit to 0."""
    chain: list[Rounding] = []
    rectified = False
    for post in posts:
        if isinstance(post, Rectify):
            if chain:
                last = chain[-1]
                chain[-1] = Rounding(last.shift, last.mode, max(0, last.low), max(0, last.high))
            else:
                rectified = True
            continue
        low, high = int(post.out.low.flat[element]), int(post.out.high.flat[element])
        if rectified or int(post.before.low.flat[element]) >= 0:
            low, high = max(0, low), max(0, high)
        chain.append(Rounding(int(post.shift[element]), post.rounding, low, high))
        rectified = False
    if rectified:
        chain.append(Rounding(0, "floor", 0, 2**63))
    return chain


def _others(circuit: Circuit, unit: CircuitUnit, inputs: list[Wire | None]) -> list[Wire | None]:
    """Add the results of a unit that is not a sum."""
    head = unit.head
    if isinstance(head, WindowMaximum):
        wires = [_maximum(circuit, [inputs[at] for at in window]) for window in head.windows.tolist()]
    elif isinstance(head, LookUp):
        wires = [_looked_up(circuit, head, wire) for wire in inputs]
    elif isinstance(head, Rearrange):
        wires = [inputs[at] for at in head.index.tolist()]
    elif isinstance(head, Rectify):
        wires = [None if wire is None else saturated(circuit, wire, 0, 2**63) for wire in inputs]
    else:
        assert isinstance(head, Requantize), "all other instructions are handled above"
        wires = inputs
        return [_after(circuit, wire, roundings((head, *unit.posts), i)) for i, wire in enumerate(wires)]
    return [_after(circuit, wire, roundings(unit.posts, i)) for i, wire in enumerate(wires)]


def _after(circuit: Circuit, wire: Wire | None, chain: Sequence[Rounding]) -> Wire | None:
    for rounding in chain:
        wire = None if wire is None else requantized(circuit, wire, rounding, offset_is_added=False)
    return wire


def _maximum(circuit: Circuit, window: Sequence[Wire | None]) -> Wire | None:
    """Return the largest wire, by a balanced tree of comparisons."""
    wires = list({wire.name: wire for wire in window if wire is not None}.values())
    has_zero = any(wire is None for wire in window)
    while len(wires) > 1:
        pairs = [wires[i : i + 2] for i in range(0, len(wires), 2)]
        wires = [_larger(circuit, *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    if not wires:
        return None
    return saturated(circuit, wires[0], 0, 2**63) if has_zero else wires[0]


def _larger(circuit: Circuit, first: Wire, second: Wire) -> Wire:
    (a, b), stage, depth = circuit.place([first, second])
    low, high = min(a.low, b.low), max(a.high, b.high)
    width = signed_width(low, high)
    left, right = (f"{width}'({wire.name})" for wire in (a, b))
    luts = 2 * width  # a comparison and a choice per bit
    return circuit.assign(f"({left} > {right}) ? {left} : {right}", low, high, stage, depth, luts)


def _looked_up(circuit: Circuit, head: LookUp, wire: Wire | None) -> Wire | None:
    """Return the entry of a table for a wire."""
    if wire is None:
        wire = circuit.assign("1'b0", 0, 0, 0, 0)
    (wire,), stage, depth = circuit.place([wire])
    low, high = int(head.table.min()), int(head.table.max())
    width = signed_width(low, high)
    name = f"t{len(circuit.lines)}"
    circuit.lines.append(f"logic signed [{width - 1}:0] {name};")
    circuit.lines.append(f"always_comb case ({wire.name})")
    for offset, value in enumerate(head.table.tolist()):
        at = head.first + offset
        if wire.low <= at <= wire.high:
            circuit.lines.append(f"    {constant(at, wire.width)}: {name} = {constant(value, width)};")
    circuit.lines.append(f"    default: {name} = {constant(0, width)};")
    circuit.lines.append("endcase")
    luts = width * max(1, 2 ** (wire.width - 6))
    return circuit.assign(name, low, high, stage, depth, luts)


def _repeated(name: str, unit: CircuitUnit, head: LinearMap, cutoff: int, use_alkaid: bool) -> list[ModuleText]:
    """Return a unit whose blocks are modules, with one instance per position."""
    source = concatenate(unit.sources)
    graphs = [solve_block(block, source, use_alkaid) for block in head.blocks]
    names = [f"{name}_block{number}" for number in range(len(graphs))]
    given = [(*each, unit, source, cutoff) for each in zip(names, graphs, head.blocks, strict=True)]
    latency = max(_block_module(*each, 1).latency for each in given)
    modules = [_block_module(*each, latency) for each in given]
    lines: list[str] = []
    width = unit.out.width
    for module, block in zip(modules, head.blocks, strict=True):
        lanes = _block_input(block, source)
        for reads, writes in zip(block.reads.tolist(), block.writes.tolist(), strict=True):
            parts = [element_bits(unit.sources, at, lanes.width) for at in reversed(reads) if lanes.width]
            inputs = ", ".join(parts or ["1'b0"])
            outs = [f"out_data[{(at + 1) * width - 1}:{at * width}]" for at in reversed(writes)]
            lines.append(
                f"{module.name} u{len(lines)} (.clk(clk), .enable(enable), "
                f".in0_data({{{inputs}}}), .out_data({{{', '.join(outs)}}}));"
            )
    counts = [len(block.reads) for block in head.blocks]
    return [wrap_module(name, unit, lines, modules, counts), *modules]


def _block_input(block: Block, source: Signal) -> Signal:
    """Return the inputs of a block, with ranges that hold at all its positions."""
    inside = block.reads != PADDING
    low = np.where(inside, source.low[block.reads], 0).min(axis=0)
    high = np.where(inside, source.high[block.reads], 0).max(axis=0)
    return Signal(np.zeros_like(low), low, high)


def _block_module(
    name: str, graph: AdderGraph, block: Block, unit: CircuitUnit, source: Signal, cutoff: int, min_latency: int
) -> ModuleText:
    lanes = _block_input(block, source)
    circuit = Circuit(cutoff)
    inputs = read_elements(circuit, lanes, "in0_data")
    posts = [merge_roundings([roundings(unit.posts, at) for at in column]) for column in block.writes.T.tolist()]
    wires = block_results(circuit, graph, block, inputs, posts)
    limits = int(unit.out.low.min()), int(unit.out.high.max())
    out = Signal.uniform((len(graph.outputs),), 0, *limits)
    return finish_module(name, circuit, [lanes], out, wires, min_latency)


def merge_roundings(chains: Sequence[Sequence[Rounding]]) -> list[Rounding]:
    """Return the requantisations of elements whose limits differ only where they do not bind."""
    merged = []
    for each in zip(*chains, strict=True):
        low, high = min(rounding.low for rounding in each), max(rounding.high for rounding in each)
        merged.append(Rounding(each[0].shift, each[0].mode, low, high))
    return merged


def element_bits(sources: Sequence[Signal], at: int, width: int) -> str:
    """Return one element of the input ports in `width` bits; `PADDING` is 0."""
    if at == PADDING:
        return f"{width}'d0"
    port = 0
    while at >= sources[port].numel:
        at -= sources[port].numel
        port += 1
    start, bits = at * sources[port].width, min(sources[port].width, width)
    if bits == 0:
        return f"{width}'d0"
    part = f"in{port}_data[{start + bits - 1}:{start}]"
    if bits == width:
        return part
    return f"{width}'($signed({part}))" if sources[port].signed else f"{width}'({part})"


def wrap_module(
    name: str, unit: CircuitUnit, lines: Sequence[str], parts: Sequence[ModuleText], counts: Sequence[int]
) -> ModuleText:
    """Return a module with the ports of a unit that has `counts` instances of other modules."""
    unused = ", ".join(f"in{i}_data" for i in range(len(unit.sources)))
    text = module_text(name, unit.sources, unit.out, [f"wire unused = &{{1'b0, {unused}}};", *lines])
    pairs = list(zip(parts, counts, strict=True))
    registers = sum(part.num_register_bits * count for part, count in pairs)
    luts = sum(part.luts * count for part, count in pairs)
    return ModuleText(name, text, parts[0].latency, registers, luts)
