"""Units with their strategy and their modules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count

from chop.config import DesignOptions, Strategy
from chop.hardware.program.instructions import LinearMap
from chop.hardware.rtl.circuit import ModuleText, levels_between_registers
from chop.hardware.rtl.estimate import AreaEstimate, estimate_folded, estimate_line_buffer
from chop.hardware.rtl.folded import FoldedUnit, fold, folded_module, single_block
from chop.hardware.rtl.line_buffer import LineBuffer
from chop.hardware.rtl.pixel_units import pixel_unit, window_of
from chop.hardware.rtl.units import CircuitUnit
from chop.hardware.rtl.unrolled import unrolled_modules
from chop.hardware.templates import read

MAX_UNROLLED = 4096
"""Products of a layer up to which it is unrolled by default; the solver would take minutes for more."""


@dataclass(frozen=True, eq=False)
class PlannedUnit:
    """A unit with its strategy, its module and the timing of the module."""

    unit: CircuitUnit
    lane_unit: CircuitUnit
    """What the module computes: the unit itself, or its part for one pixel."""
    strategy: Strategy
    module: str
    latency: int
    """Cycles from an accepted word to its result."""
    interval: int
    """Cycles between two words."""
    estimate: AreaEstimate
    folded: FoldedUnit | None = None
    buffer: LineBuffer | None = None
    """The windows that a unit reads pixel by pixel."""

    @property
    def area(self) -> AreaEstimate:
        """The estimated area, with the line buffer."""
        return self.estimate if self.buffer is None else self.estimate + estimate_line_buffer(self.buffer)

    @property
    def is_by_pixel(self) -> bool:
        """Whether the unit computes one pixel of its result at a time."""
        return self.lane_unit is not self.unit


def check_names(units: Sequence[CircuitUnit], options: DesignOptions) -> None:
    """Raise an error for a strategy of a node that does not exist."""
    known = {node for each in units for node in each.nodes}
    unknown = [name for name in options.strategies if name != "default" and name not in known]
    if unknown:
        raise ValueError(f"strategy: there is no node '{unknown[0]}'; nodes: {', '.join(sorted(known))}")


def check_name(name: str, files: Collection[str]) -> None:
    """Raise an error if the top module would have the name of a keyword or of another module."""
    if name in read("keywords.txt").split() or name == "testbench" or f"{name}.sv" in files:
        raise ValueError(f"'name' must not be '{name}', which SystemVerilog or another module of the circuit uses")


def given_strategy(unit: CircuitUnit, options: DesignOptions) -> Strategy | None:
    """Return the strategy that the options give a unit by name, or else by default if the unit can have it."""
    strategies = options.strategies
    named = [strategies[node] for node in unit.nodes if node in strategies]
    if named:
        return None if named[0] == "auto" else named[0]
    default = strategies.get("default", "auto")
    possible = {
        "unrolled": True,
        "folded": single_block(unit) is not None,
        "stream_conv": window_of(unit) is not None and is_streamable(unit),
    }
    return default if default != "auto" and possible[default] else None


def is_streamable(unit: CircuitUnit) -> bool:
    """Whether a unit can be computed pixel by pixel."""
    try:
        pixel_unit(unit)
    except ValueError:
        return False
    return True


def starts_stream(unit: CircuitUnit, options: DesignOptions) -> bool:
    """Whether a unit is to be computed pixel by pixel even if its input is a complete tensor."""
    given = given_strategy(unit, options)
    if given is not None:
        return given == "stream_conv"
    head = unit.head
    if not isinstance(head, LinearMap) or head.kind != "conv":
        return False
    products = sum(block.matrix.size * len(block.reads) for block in head.blocks)
    return products > MAX_UNROLLED and is_streamable(unit)


def plan_unit(unit: CircuitUnit, by_pixel: bool, options: DesignOptions) -> tuple[PlannedUnit, dict[str, str]]:
    """Return a unit with its strategy, and its files."""
    module = f"{options.name}_{unit.name.lstrip('_')}"
    lane_unit, buffer = unit, None
    if by_pixel:
        pixel = pixel_unit(unit)
        lane_unit = pixel.unit
        if pixel.window is not None:
            buffer = LineBuffer(pixel.window, unit.sources[0].width, pixel.fill)
    strategy: Strategy = "stream_conv" if by_pixel else "unrolled"
    if unit.is_wiring:
        return PlannedUnit(unit, lane_unit, strategy, module, 0, 1, AreaEstimate()), {}
    if _is_large(lane_unit) if by_pixel else _is_folded(unit, options):
        folded = fold(lane_unit, options)
        text, roms = folded_module(module, folded)
        strategy, timing = "stream_conv" if by_pixel else "folded", (folded.latency, folded.interval)
        area = estimate_folded(folded)
        made = PlannedUnit(unit, lane_unit, strategy, module, *timing, area, folded, buffer)
        return made, {f"{module}.sv": text.text, **roms}
    modules = _with_few_registers(module, lane_unit, options)
    area = AreaEstimate(modules[0].luts, modules[0].num_register_bits)
    made = PlannedUnit(unit, lane_unit, strategy, module, modules[0].latency, 1, area, buffer=buffer)
    return made, {f"{each.name}.sv": each.text for each in modules}


def _is_folded(unit: CircuitUnit, options: DesignOptions) -> bool:
    if not isinstance(unit.head, LinearMap):
        return False  # rounding, maxima and tables have no multipliers to share
    given = given_strategy(unit, options)
    return _is_large(unit) if given is None else given == "folded"


def _is_large(unit: CircuitUnit) -> bool:
    """Whether a unit has one matrix that is too large to be unrolled."""
    block = single_block(unit)
    return block is not None and block.matrix.size > MAX_UNROLLED


def _with_few_registers(module: str, unit: CircuitUnit, options: DesignOptions) -> list[ModuleText]:
    """Return the modules of an unrolled unit, with as few registers as the options allow."""
    use_alkaid = options.solver == "alkaid"
    if options.stages is None:
        return unrolled_modules(module, unit, levels_between_registers(options), use_alkaid)
    made = (unrolled_modules(module, unit, cutoff, use_alkaid) for cutoff in count(1))
    return next(modules for modules in made if modules[0].latency <= options.stages)
