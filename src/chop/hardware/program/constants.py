"""Results that are the same for every input become part of what reads them; circuits compute the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from chop.hardware.program.instructions import PADDING, Block, Instruction, LinearMap, Rearrange
from chop.hardware.program.program import Program
from chop.hardware.program.signal import IntArray, Signal


def without_constants(program: Program) -> Program:
    """Return a program that computes the same, without results that never change or that nothing needs."""
    constants: dict[str, IntArray] = {}
    varying: dict[str, Instruction] = {}
    for each in program:
        if (each.out.low == each.out.high).all():
            constants[each.name] = each.out.low.ravel()
        elif each.reads and all(name in constants for name in each.reads):
            constants[each.name] = each.run(np.concatenate([constants[name] for name in each.reads])[None])[0]
        else:
            varying[each.name] = _with_constants(program, each, constants)
    if program.result in constants:
        return _fixed(program, constants[program.result])
    needed = {program.result}
    for each in reversed(varying.values()):
        if each.name in needed:
            needed.update(each.reads)
    return Program({name: each for name, each in varying.items() if name in needed}, program.result)


def _fixed(program: Program, values: IntArray) -> Program:
    """Return a program whose results are the same for every input."""
    source, last = program.input, program.output
    count, fixed = len(values), values.reshape(last.out.shape)
    block = Block(np.zeros((count, 1), dtype=np.int64), values, np.array([[PADDING]]), np.arange(count)[None])
    out = Signal(last.out.frac, fixed, fixed)
    return Program({source.name: source, last.name: _sums(last, (source.name,), out, block)}, last.name)


def _with_constants(program: Program, instruction: Instruction, constants: Mapping[str, IntArray]) -> Instruction:
    """Return an instruction that does not read constants: its sums include them."""
    if not any(name in constants for name in instruction.reads):
        return instruction
    if isinstance(instruction, Rearrange):
        instruction = _as_sums(instruction)
    assert isinstance(instruction, LinearMap), "only sums and rearrangements read several results"
    sizes = [(name, program[name].out.numel) for name in instruction.reads]
    values = np.concatenate([constants.get(name, np.zeros(size, dtype=np.int64)) for name, size in sizes])
    varies = np.concatenate([np.full(size, name not in constants) for name, size in sizes])
    places = np.where(varies, np.cumsum(varies) - 1, PADDING)
    return replace(
        instruction,
        reads=tuple(name for name in instruction.reads if name not in constants),
        blocks=tuple(part for block in instruction.blocks for part in _parts(block, values, places)),
    )


def _as_sums(instruction: Rearrange) -> LinearMap:
    """Return an instruction that moves elements as sums of one element each."""
    one, zero = np.ones((1, 1), dtype=np.int64), np.zeros(1, dtype=np.int64)
    block = Block(one, zero, instruction.index[:, None], np.arange(len(instruction.index))[:, None])
    return _sums(instruction, instruction.reads, instruction.out, block)


def _sums(instruction: Instruction, reads: tuple[str, ...], out: Signal, block: Block) -> LinearMap:
    """Return sums in the place of an instruction."""
    name, node = instruction.name, instruction.node
    return LinearMap(
        name=name, node=node, reads=reads, out=out, blocks=(block,), partial_bound=out.largest, kind="sum"
    )


def _parts(block: Block, values: IntArray, places: IntArray) -> list[Block]:
    """Return a block with constants in its biases: one part for all positions whose constants have the same sums.

    `places` has the number of each element among those that vary, or `PADDING`; `values` are the constants.
    """
    inside = block.reads != PADDING
    reads = np.where(inside, places[block.reads], PADDING)
    added = np.where(inside, values[block.reads], 0) @ block.matrix.T
    sums, part_of = np.unique(added, axis=0, return_inverse=True)
    parts = []
    for number, bias in enumerate(block.bias + sums):
        own = part_of.ravel() == number
        used = (reads[own] != PADDING).any(axis=0)
        used[0] |= not used.any()
        parts.append(Block(block.matrix[:, used], bias, reads[own][:, used], block.writes[own]))
    return parts
