"""Look-up tables of adders in an FPGA with carry chains."""

from __future__ import annotations

from chop.hardware.rtl.circuit import Wire


def adder_luts(first: tuple[Wire, int], second: tuple[Wire, int], width: int, subtract: bool) -> int:
    """Return the look-up tables of a sum or difference of two shifted wires.

    A bit needs one if both operands vary there; if one is constant, its carry chain reads the other directly, or
    inverted. Copies of a sign bit share one. Low bits of a minuend that nothing is subtracted from are wires.
    """
    found = set()
    start = second[1] if subtract else max(first[1], second[1])
    for position in range(start, width):
        a, b = _bit(*first, position), _bit(*second, position)
        if (a is not None and b is not None) or subtract:
            found.add((a, b))
    found.discard((None, None))
    return len(found)


def constant_luts(wire: Wire, summand: int, width: int) -> int:
    """Return the look-up tables of a sum with a constant: each 1 of it inverts a bit of the carry chain."""
    found = {_bit(wire, 0, position) for position in range(wire.num_fixed, width) if summand >> position & 1}
    return len(found - {None})


def _bit(wire: Wire, shift: int, position: int) -> int | None:
    """Return which bit of a wire is at a position; None: it is always 0. The sign bit is repeated."""
    at = position - shift
    if at < 0 or (wire.low >= 0 and at >= wire.width - 1):
        return None
    return min(at, wire.width - 1)
