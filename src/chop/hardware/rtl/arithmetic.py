"""Additions, rounding and saturation as SystemVerilog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chop.hardware.adders import AdderGraph, Addition
from chop.hardware.program.signal import ExactRounding, bits_below_sign, shift_right, signed_width
from chop.hardware.rtl.circuit import Circuit, Wire, constant, extended, low_bits, shifted_right


@dataclass(frozen=True)
class Rounding:
    """A requantisation of one element: shift, round, saturate; after ReLU, `low` is at least 0."""

    shift: int
    mode: ExactRounding
    low: int
    high: int

    @property
    def offset(self) -> int:
        """What can be added to the sum before, so that the rounding itself needs no adder."""
        half_up = self.mode == "nearest_even" or (self.mode == "nearest_away" and self.low >= 0)
        return 1 << (self.shift - 1) if half_up and self.shift > 0 else 0


def add_graph(circuit: Circuit, graph: AdderGraph, inputs: Sequence[Wire | None]) -> list[Wire | None]:
    """Add the adders of a graph and return all its values; None is a value that is always 0."""
    values = list(inputs)
    ranges = graph.ranges([(0, 0) if wire is None else (wire.low, wire.high) for wire in inputs])
    for each, limits in zip(graph.additions, ranges[graph.num_inputs :], strict=True):
        values.append(_addition(circuit, each, values[each.left], values[each.right], limits))
    return values


def _addition(
    circuit: Circuit, addition: Addition, left: Wire | None, right: Wire | None, limits: tuple[int, int]
) -> Wire | None:
    if left is None and right is None:
        return None
    if right is None:
        assert left is not None, "checked above"
        return shifted_left(circuit, left, addition.left_shift)
    if left is None:
        moved = shifted_left(circuit, right, addition.right_shift)
        return negated_plus(circuit, moved, 0) if addition.subtract else moved
    (a, b), stage, depth = circuit.place([left, right])
    low, high = limits
    width = signed_width(low, high)
    _ignore_if_cut(circuit, a, width - addition.left_shift)
    _ignore_if_cut(circuit, b, width - addition.right_shift)
    sign = "-" if addition.subtract else "+"
    if 0 < addition.right_shift < width:
        shift = addition.right_shift
        upper = f"{shifted_right(a, shift, width - shift)} {sign} {extended(b, width - shift)}"
        expression = f"{{{upper}, {low_bits(a, shift)}}}"
    elif 0 < addition.left_shift < width and not addition.subtract:
        shift = addition.left_shift
        upper = f"{extended(a, width - shift)} + {shifted_right(b, shift, width - shift)}"
        expression = f"{{{upper}, {low_bits(b, shift)}}}"
    else:
        expression = f"{_shifted(a, addition.left_shift, width)} {sign} {_shifted(b, addition.right_shift, width)}"
    luts = adder_luts((a, addition.left_shift), (b, addition.right_shift), width, addition.subtract)
    return circuit.assign(expression, low, high, stage, depth, luts)


def shifted_left(circuit: Circuit, wire: Wire, shift: int) -> Wire:
    """Return a wire times a power of two."""
    if shift == 0:
        return wire
    low, high = wire.low << shift, wire.high << shift
    width = signed_width(low, high)
    fixed = wire.num_fixed + shift
    return circuit.assign(_shifted(wire, shift, width), low, high, wire.stage, wire.depth, num_fixed=fixed)


def negated_plus(circuit: Circuit, wire: Wire, summand: int) -> Wire:
    """Return `summand - wire`."""
    (wire,), stage, depth = circuit.place([wire])
    low, high = summand - wire.high, summand - wire.low
    width = signed_width(low, high)
    _ignore_if_cut(circuit, wire, width)
    expression = f"{constant(summand, width)} - {extended(wire, width)}"
    return circuit.assign(expression, low, high, stage, depth, constant_luts(wire, ~summand, width))


def plus(circuit: Circuit, wire: Wire, summand: int) -> Wire:
    """Return `wire + summand`."""
    if summand == 0:
        return wire
    (wire,), stage, depth = circuit.place([wire])
    low, high = wire.low + summand, wire.high + summand
    width = signed_width(low, high)
    zeros = (summand & -summand).bit_length() - 1  # low bits that the summand does not change
    luts = constant_luts(wire, summand, width)
    _ignore_if_cut(circuit, wire, width)
    if 0 < zeros < min(width, wire.width):
        upper = f"{shifted_right(wire, zeros, width - zeros)} + {constant(summand >> zeros, width - zeros)}"
        expression = f"{{{upper}, {low_bits(wire, zeros)}}}"
    else:
        expression = f"{extended(wire, width)} + {constant(summand, width)}"
    return circuit.assign(expression, low, high, stage, depth, luts, wire.num_fixed)


def _ignore_if_cut(circuit: Circuit, wire: Wire, width: int) -> None:
    """Note that a sum does not need all bits of an operand: it is computed modulo 2**width."""
    if wire.width > width:
        circuit.ignored.append(wire.name)


def requantized(circuit: Circuit, wire: Wire, rounding: Rounding, offset_is_added: bool) -> Wire:
    """Return a wire shifted, rounded and saturated; `offset_is_added` says that it includes `rounding.offset`."""
    if rounding.shift > 0:
        if rounding.offset and not offset_is_added:
            wire = plus(circuit, wire, rounding.offset)
        wire = _rounded(circuit, wire, rounding)
    else:
        wire = shifted_left(circuit, wire, -rounding.shift)
    return saturated(circuit, wire, rounding.low, rounding.high)


def _rounded(circuit: Circuit, wire: Wire, rounding: Rounding) -> Wire:
    """Return `wire / 2**shift`; a wire with an offset includes it."""
    shift, mode = rounding.shift, rounding.mode
    if not rounding.offset and mode != "floor" and rounding.low < 0:
        below = (1 << shift) - 1 if mode == "towards_zero" else (1 << (shift - 1)) - 1
        above = 0 if mode == "towards_zero" else 1 << (shift - 1)
        (wire,), stage, depth = circuit.place([wire], 2)
        low, high = min(wire.low + below, wire.low), max(wire.high + above, below)
        width = signed_width(low, high)
        sign = f"{wire.name}[{wire.width - 1}]"
        added = f"({sign} ? {constant(below, width)} : {constant(above, width)})"
        wire = circuit.assign(f"{extended(wire, width)} + {added}", low, high, stage, depth, width)
        circuit.ignored.append(wire.name)
        return circuit.assign(
            shifted_right(wire, shift, signed_width(low >> shift, high >> shift)),
            low >> shift,
            high >> shift,
            stage,
            depth,
        )
    low, high = (_round(bound - rounding.offset, rounding) for bound in (wire.low, wire.high))
    width = signed_width(low, high)
    circuit.ignored.append(wire.name)
    if mode != "nearest_even":
        return circuit.assign(shifted_right(wire, shift, width), low, high, wire.stage, wire.depth)
    rest = f"|{low_bits(wire, shift)}" if shift <= wire.width else f"|{wire.name}"
    lowest = f"({wire.name}[{min(shift, wire.width - 1)}] & ({rest}))"
    if width == 1:
        return circuit.assign(lowest, low, high, wire.stage, wire.depth, 1)
    upper = shifted_right(wire, shift + 1, width - 1)
    # How many bits say whether a rounded value is saturated; 0 if it never is, or only becomes 0.
    is_limited = high > rounding.high or low < rounding.low < 0
    num_limiting = max(1, width - 1 - bits_below_sign(rounding.high) + (rounding.low < 0)) if is_limited else 0
    luts = lowest_bit_luts(shift - wire.num_fixed, num_limiting)
    return circuit.assign(f"{{{upper}, {lowest}}}", low, high, wire.stage, wire.depth, luts)


def saturated(circuit: Circuit, wire: Wire, low: int, high: int) -> Wire:
    """Return a wire limited to `low` to `high`."""
    below, above = wire.low < low, wire.high > high
    if not below and not above:
        return wire
    (wire,), stage, depth = circuit.place([wire])
    out = replace(wire, low=max(low, min(wire.low, high)), high=min(high, max(wire.high, low)))
    width, top = out.width, wire.width - 1
    circuit.ignored.append(wire.name)
    sign = f"{wire.name}[{top}]"
    kept = low_bits(wire, width)
    bits = bits_below_sign(high)
    is_power = high == (1 << bits) - 1 and bits < wire.width
    if above and is_power and low == 0 and bits:
        over = (
            f"|{wire.name}[{top - 1 if below else top}:{bits}]" if (top - 1 if below else top) >= bits else "1'b0"
        )
        chosen = f"({over}) ? {constant(high, width)} : $signed({kept})"
        expression = f"{sign} ? {constant(0, width)} : ({chosen})" if below else chosen
    elif above and below and is_power and low == -high - 1:
        high_part = f"{wire.name}[{top}:{bits}]"
        fits = f"(&{high_part}) | ~(|{high_part})"
        limit = f"{{{sign}, {{{bits}{{~{sign}}}}}}}" if bits else sign
        expression = f"({fits}) ? {kept} : {limit}"
    elif below and not above and low == 0:
        expression = f"{sign} ? {constant(0, width)} : $signed({kept})"
    else:
        expression = f"$signed({kept})"
        if above:
            expression = f"({wire.name} > {constant(high, wire.width)}) ? {constant(high, width)} : {expression}"
        if below:
            expression = f"({wire.name} < {constant(low, wire.width)}) ? {constant(low, width)} : ({expression})"
    luts = saturation_luts(wire, out.width - (low >= 0), above, below and low == 0)
    return circuit.assign(expression, out.low, out.high, stage, depth, luts)


def _shifted(wire: Wire, shift: int, width: int) -> str:
    """Return `wire << shift` with its sign extended to `width` bits."""
    if shift == 0:
        return extended(wire, width)
    joined = f"{{{wire.name}, {shift}'d0}}"
    return f"$signed({joined})" if wire.width + shift == width else f"{width}'($signed({joined}))"


def _round(value: int, rounding: Rounding) -> int:
    mode = "floor" if rounding.mode != "nearest_even" and not rounding.offset else rounding.mode
    return int(shift_right(np.array(value), rounding.shift, mode))


def adder_luts(first: tuple[Wire, int], second: tuple[Wire, int], width: int, subtract: bool) -> int:
    """Return the look-up tables of a sum or difference of two shifted wires.

    A bit needs one if both operands vary there; if one is constant, its carry chain reads the other directly, or
    inverted. Copies of a sign bit share one. Low bits of a minuend that nothing is subtracted from are wires, and
    so is a bit that meets itself, as the sign bits of 4 x - x do.
    """
    same = first[0].name == second[0].name
    found = set()
    start = second[1] if subtract else max(first[1], second[1])
    for position in range(start, width):
        a, b = _bit(*first, position), _bit(*second, position)
        if ((a is not None and b is not None) or subtract) and not (same and a == b):
            found.add((a, b))
    found.discard((None, None))
    return len(found)


def constant_luts(wire: Wire, summand: int, width: int) -> int:
    """Return the look-up tables of a sum with a constant: each 1 of it inverts a bit of the carry chain."""
    found = {_bit(wire, 0, position) for position in range(wire.num_fixed, width) if summand >> position & 1}
    return len(found - {None})


def saturation_luts(wire: Wire, bits: int, above: bool, rectifies: bool) -> int:
    """Return the look-up tables of a saturation to `bits` bits, without a sign that is always 0.

    Values below 0 become 0 by the synchronous reset of the register that follows, which takes one table. Upper
    limits take one per bit, and more if more than five bits say whether a value is beyond them.
    """
    if rectifies and not above:
        return 1
    return bits + rectifies + (wire.width - bits > 5)


def lowest_bit_luts(num_below: int, num_limiting: int) -> int:
    """Return the look-up tables of the lowest bit of a number rounded to even, which depends on the bits below it.

    If the number is saturated by `num_limiting` bits, a table of six inputs has room for some of the bits below.
    """
    room = 0 if num_limiting == 0 else 5 - num_limiting if num_limiting < 5 else 4
    return -(-max(0, num_below - room) // 5)


def _bit(wire: Wire, shift: int, position: int) -> int | None:
    """Return which bit of a wire is at a position; None: it is always 0. The sign bit is repeated."""
    at = position - shift
    if at < 0 or (wire.low >= 0 and at >= wire.width - 1):
        return None
    return min(at, wire.width - 1)
