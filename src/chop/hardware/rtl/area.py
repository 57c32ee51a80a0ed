"""Look-up tables of adders in an FPGA with carry chains."""

from __future__ import annotations

from chop.hardware.rtl.circuit import Wire


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
