"""Combinational SystemVerilog with registers that are inserted while it is written."""

from __future__ import annotations

from dataclasses import dataclass

from chop.config import DesignOptions
from chop.hardware.program.signal import width_of

NANOSECONDS_PER_LEVEL = 1.6
"""An adder of about 16 bits with its routing in a mid-range FPGA of 2015; sets the levels for a clock target."""


def levels_between_registers(options: DesignOptions) -> int:
    """Return the largest number of levels between two registers, if `stages` is not given."""
    if options.latency_cutoff is not None:
        return options.latency_cutoff
    return max(1, int(1000 / options.clock_mhz / NANOSECONDS_PER_LEVEL))


@dataclass(frozen=True)
class Wire:
    """A signed wire with a known range; `stage` is the number of registers before it, `depth` the levels since."""

    name: str
    low: int
    high: int
    stage: int
    depth: int
    num_fixed: int = 0
    """Low bits that are constant."""

    @property
    def width(self) -> int:
        """Bits, sign included."""
        return max(1, width_of(self.low, self.high, signed=True))


class Circuit:
    """Declarations, assignments and registers of one module.

    A wire that would be more than `cutoff` levels of logic behind a register moves to the next stage. All
    registers have the clock enable `enable`.
    """

    def __init__(self, cutoff: int) -> None:
        self.cutoff = cutoff
        self.lines: list[str] = []
        self.registers: list[tuple[str, str]] = []
        self.ignored: list[str] = []
        """Wires of which some bits are not used."""
        self.num_register_bits = 0
        self.luts = 0
        """An estimate of the look-up tables of everything that was assigned."""
        self._delayed: dict[tuple[str, int], Wire] = {}
        self._count = 0

    def input(self, expression: str, low: int, high: int) -> Wire:
        """Return a wire of an input port."""
        return self._declare(expression, Wire(self._name(), low, high, 0, 0))

    def place(self, operands: list[Wire], levels: int = 1) -> tuple[list[Wire], int, int]:
        """Return the operands in one stage, and stage and depth of what is computed from them."""
        stage = max((wire.stage for wire in operands), default=0)
        depth = max((wire.depth for wire in operands if wire.stage == stage), default=0)
        if depth and depth + levels > self.cutoff:
            stage, depth = stage + 1, 0
        return [self.delayed(wire, stage) for wire in operands], stage, depth + levels

    def assign(
        self, expression: str, low: int, high: int, stage: int, depth: int, luts: int = 0, num_fixed: int = 0
    ) -> Wire:
        """Return a new wire with the value of an expression that takes about `luts` look-up tables."""
        self.luts += luts
        return self._declare(expression, Wire(self._name(), low, high, stage, depth, num_fixed))

    def delayed(self, wire: Wire, stage: int) -> Wire:
        """Return a wire behind registers, in a later stage."""
        while wire.stage < stage:
            key = (wire.name, wire.stage + 1)
            if key not in self._delayed:
                later = Wire(f"{wire.name}_q", wire.low, wire.high, wire.stage + 1, 0, wire.num_fixed)
                self.lines.append(f"logic signed [{wire.width - 1}:0] {later.name};")
                self.registers.append((later.name, wire.name))
                self.num_register_bits += wire.width
                self._delayed[key] = later
            wire = self._delayed[key]
        return wire

    def _declare(self, expression: str, wire: Wire) -> Wire:
        self.lines.append(f"wire signed [{wire.width - 1}:0] {wire.name} = {expression};")
        return wire

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"


def constant(value: int, width: int) -> str:
    """Return a signed constant."""
    return f"{width}'sh{value % (1 << width):x}"


def extended(wire: Wire, width: int) -> str:
    """Return a wire with its sign extended to `width` bits."""
    return wire.name if wire.width == width else f"{width}'({wire.name})"


def low_bits(wire: Wire, width: int) -> str:
    """Return the lowest bits of a wire, sign-extended if it has fewer."""
    if width > wire.width:
        return f"{width}'({wire.name})"
    return f"{wire.name}[{width - 1}:0]" if width < wire.width else wire.name


def shifted_right(wire: Wire, shift: int, width: int) -> str:
    """Return `wire >> shift` with its sign extended to `width` bits."""
    if shift == 0:
        return extended(wire, width)
    kept = max(1, wire.width - shift)
    part = f"{wire.name}[{wire.width - 1}:{wire.width - kept}]"
    return f"$signed({part})" if kept == width else f"{width}'($signed({part}))"
