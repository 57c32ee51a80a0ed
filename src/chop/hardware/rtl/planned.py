"""Units with their strategy and their modules."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chop.hardware.program.instructions import LinearMap
from chop.hardware.rtl.estimate import AreaEstimate, estimate_folded, estimate_line_buffer
from chop.hardware.rtl.folded import FoldedUnit, Folding, fold, folded_module, single_block
from chop.hardware.rtl.line_buffer import LineBuffer
from chop.hardware.rtl.module import ModuleText
from chop.hardware.rtl.pipeline import PipelineOptions, Strategy
from chop.hardware.rtl.pixel_units import PixelUnit, pixel_unit, window_of
from chop.hardware.rtl.units import CircuitUnit
from chop.hardware.rtl.unrolled import unrolled_modules

MAX_UNROLLED = 4096
"""Products of a layer up to which it is unrolled by default; the solver would take minutes for more."""


@dataclass(frozen=True)
class DesignOptions:
    """How a program becomes a circuit."""

    name: str = "network"
    """The name of the top module; the other modules start with it."""
    strategy: Mapping[str, Strategy] = field(default_factory=dict)
    """The strategy of each node, and `default` for the others; by default, it follows from the size of a layer."""
    folding: Folding = field(default_factory=Folding)
    """Inputs and outputs of folded nodes at a time."""
    pipeline: PipelineOptions = field(default_factory=PipelineOptions)
    """Where registers go."""
    use_alkaid: bool = True
    """Whether constant products are optimised with alkaid, if it is installed."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ValueError(f"'name' must be letters, digits and underscores, got '{self.name}'")


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
    unknown = [name for name in options.strategy if name != "default" and name not in known]
    if unknown:
        raise ValueError(f"strategy: there is no node '{unknown[0]}'; nodes: {', '.join(sorted(known))}")


def given_strategy(unit: CircuitUnit, options: DesignOptions) -> Strategy | None:
    """Return the strategy that the options give a unit by name, or else by default if the unit can have it."""
    named = [options.strategy[node] for node in unit.nodes if node in options.strategy]
    if named:
        return named[0]
    default = options.strategy.get("default")
    possible = {
        "unrolled": True,
        "folded": single_block(unit) is not None,
        "stream_conv": window_of(unit) is not None and is_streamable(unit),
    }
    return default if default is not None and possible[default] else None


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
    if by_pixel:
        return _by_pixel(module, unit, pixel_unit(unit), options)
    if unit.is_wiring:
        return PlannedUnit(unit, unit, "unrolled", module, 0, 1, AreaEstimate()), {}
    if _is_folded(unit, options):
        return _folded(module, unit, unit, "folded", None, options)
    return _unrolled(module, unit, unit, "unrolled", None, options)


def _is_folded(unit: CircuitUnit, options: DesignOptions) -> bool:
    if not isinstance(unit.head, LinearMap):
        return False  # rounding, maxima and tables have no multipliers to share
    given = given_strategy(unit, options)
    return _is_large(unit) if given is None else given == "folded"


def _is_large(unit: CircuitUnit) -> bool:
    """Whether a unit has one matrix that is too large to be unrolled."""
    block = single_block(unit)
    return block is not None and block.matrix.size > MAX_UNROLLED


def _by_pixel(
    module: str, unit: CircuitUnit, pixel: PixelUnit, options: DesignOptions
) -> tuple[PlannedUnit, dict[str, str]]:
    buffer = None
    if pixel.window is not None:
        buffer = LineBuffer(pixel.window, unit.sources[0].width, pixel.fill)
    if unit.is_wiring:
        return PlannedUnit(unit, pixel.unit, "stream_conv", module, 0, 1, AreaEstimate()), {}
    make = _folded if _is_large(pixel.unit) else _unrolled
    return make(module, unit, pixel.unit, "stream_conv", buffer, options)


def _folded(
    module: str,
    unit: CircuitUnit,
    lane_unit: CircuitUnit,
    strategy: Strategy,
    buffer: LineBuffer | None,
    options: DesignOptions,
) -> tuple[PlannedUnit, dict[str, str]]:
    folded = fold(lane_unit, options.folding)
    text, roms = folded_module(module, folded)
    area = estimate_folded(folded)
    timing = folded.latency, folded.interval
    made = PlannedUnit(unit, lane_unit, strategy, module, *timing, area, folded, buffer)
    return made, {f"{module}.sv": text.text, **roms}


def _unrolled(
    module: str,
    unit: CircuitUnit,
    lane_unit: CircuitUnit,
    strategy: Strategy,
    buffer: LineBuffer | None,
    options: DesignOptions,
) -> tuple[PlannedUnit, dict[str, str]]:
    modules = _with_few_registers(module, lane_unit, options)
    first = modules[0]
    estimate = AreaEstimate(first.luts, first.num_register_bits)
    made = PlannedUnit(unit, lane_unit, strategy, module, first.latency, 1, estimate, buffer=buffer)
    return made, {f"{each.name}.sv": each.text for each in modules}


def _with_few_registers(module: str, unit: CircuitUnit, options: DesignOptions) -> list[ModuleText]:
    """Return the modules of an unrolled unit, with as few registers as the options allow."""
    pipeline = options.pipeline
    if pipeline.stages is None:
        return unrolled_modules(module, unit, pipeline.cutoff, options.use_alkaid)
    cutoff = 1
    while True:
        modules = unrolled_modules(module, unit, cutoff, options.use_alkaid)
        if modules[0].latency <= pipeline.stages:
            return modules
        cutoff += 1
