"""The integer program and its numpy interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from chop.formats.parts.rounding import round_
from chop.hardware.program.instructions import (
    PADDING,
    Align,
    Block,
    InputPort,
    Instruction,
    LinearMap,
    Rearrange,
    Rows,
)
from chop.hardware.program.signal import IntArray, Signal

ROWS_AT_ONCE = 4096
"""Rows per step of the interpreter, so that intermediate results stay in the cache."""
FLOAT32_BOUND = 2**24
"""Integers up to here, and all their sums, are exact in float32."""


@dataclass(frozen=True, eq=False)
class Program:
    """Instructions in the order in which they run; the first is the input, `result` names the output."""

    instructions: Mapping[str, Instruction]
    result: str

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions.values())

    def __getitem__(self, name: str) -> Instruction:
        return self.instructions[name]

    @property
    def input(self) -> InputPort:
        first = next(iter(self))
        assert isinstance(first, InputPort), "a program starts with its input"
        return first

    @property
    def output(self) -> Instruction:
        return self.instructions[self.result]

    @cached_property
    def bound(self) -> int:
        """The largest magnitude of any intermediate result."""
        return max(each.bound for each in self)

    @property
    def beyond_float32(self) -> tuple[str, ...]:
        """The nodes whose sums can exceed 2**24, so that float32 does not compute them exactly."""
        computing = [each for each in self if not isinstance(each, Align)]  # which adds zeros only
        return tuple(dict.fromkeys(each.node for each in computing if each.bound > FLOAT32_BOUND))

    def readers(self, name: str) -> list[Instruction]:
        """Return the instructions that read a result."""
        return [each for each in self if name in each.reads]

    def quantize(self, x: NDArray[np.floating]) -> Rows:
        """Return the integers that enter the program for real rows [rows, *shape], flat."""
        port = self.input
        scaled = np.ldexp(np.asarray(x, dtype=np.float64).reshape(len(x), -1), port.out.frac.ravel())
        if np.isnan(scaled).any():
            raise ValueError("the input contains NaN, which has no integer")
        rounded = round_(torch.from_numpy(scaled), port.rounding).numpy()
        integers: Rows = np.clip(rounded, port.out.low.ravel(), port.out.high.ravel()).astype(np.int64)
        return integers

    def run(self, x: Rows) -> Rows:
        """Return the integers [rows, outputs] for the integers [rows, inputs]."""
        parts = [self._run(x[at : at + ROWS_AT_ONCE])[self.result] for at in range(0, max(1, len(x)), ROWS_AT_ONCE)]
        return np.concatenate(parts).astype(np.int64)

    def trace(self, x: Rows) -> dict[str, Rows]:
        """Return the result of every instruction."""
        values = self._run(x, keep=True)
        return {name: value.astype(np.int64) for name, value in values.items()}

    def real(self, x: Rows) -> NDArray[np.float64]:
        """Return the real results [rows, *shape] for the integers [rows, inputs]."""
        return self.output.out.to_real(self.run(x).reshape(len(x), *self.output.out.shape))

    def _run(self, x: Rows, keep: bool = False) -> dict[str, Rows]:
        dtype = np.int32 if self.bound < 2**27 else np.int64  # with room for carries and shifts
        values: dict[str, Rows] = {}
        for each in self:
            given = [values[name] for name in each.reads] or [x.reshape(len(x), -1).astype(dtype)]
            values[each.name] = each.run(given[0] if len(given) == 1 else np.concatenate(given, axis=1))
            if not keep:
                for name in self._last_read[each.name]:
                    del values[name]
        return values

    @cached_property
    def _last_read(self) -> dict[str, tuple[str, ...]]:
        """The results that are not needed after each instruction."""
        last = {name: each.name for each in self for name in each.reads}
        return {
            each.name: tuple(
                name for name in dict.fromkeys(each.reads) if last[name] == each.name and name != self.result
            )
            for each in self
        }


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
