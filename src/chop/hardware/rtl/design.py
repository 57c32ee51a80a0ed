"""A design: the program cut into units, a strategy for each, and the files of the circuit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from chop.hardware.program import Program, Signal
from chop.hardware.program.instructions import LinearMap
from chop.hardware.rtl.estimate import AreaEstimate, estimate_folded, estimate_skid
from chop.hardware.rtl.folded import FoldedUnit, Folding, fold, folded_module, single_block
from chop.hardware.rtl.library import DELAY, SKID_BUFFER
from chop.hardware.rtl.module import HEADER, ModuleText
from chop.hardware.rtl.pipeline import PipelineOptions, Strategy
from chop.hardware.rtl.top import Segment, top_module
from chop.hardware.rtl.units import CircuitUnit, make_units
from chop.hardware.rtl.unrolled import unrolled_modules

MAX_UNROLLED = 4096
"""Products of a layer up to which it is unrolled by default; the solver would take minutes for more."""


@dataclass(frozen=True)
class DesignOptions:
    """How a program becomes a circuit."""

    name: str = "network"
    """The name of the top module; the other modules start with it."""
    strategy: Mapping[str, Strategy] = field(default_factory=dict)
    """The strategy of each node, and `default` for the others; by default, large layers are folded."""
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
    """A unit with its strategy, its module and its timing."""

    unit: CircuitUnit
    strategy: Strategy
    module: str
    latency: int
    interval: int
    estimate: AreaEstimate
    folded: FoldedUnit | None = None


@dataclass(frozen=True, eq=False)
class Design:
    """The files of a circuit by name, and what is known about it."""

    options: DesignOptions
    program: Program
    units: tuple[PlannedUnit, ...]
    segments: tuple[Segment, ...]
    files: Mapping[str, str]

    @property
    def latency(self) -> int:
        """Cycles from an accepted input to its result, if nothing stalls."""
        return sum(segment.latency for segment in self.segments)

    def starts(self) -> dict[str, int]:
        """Return the cycle in which each unit takes its inputs, by the unit's name."""
        found, before = {}, 0
        for segment in self.segments:
            times = {} if segment.is_folded else segment.times()
            for planned in segment.units:
                found[planned.unit.name] = before + (segment.start(planned, times) if times else 0)
            before += segment.latency
        return found

    @property
    def interval(self) -> int:
        """Cycles between two inputs, if nothing stalls."""
        return max((planned.interval for planned in self.units), default=1)

    @property
    def estimate(self) -> AreaEstimate:
        """The estimated area of the complete circuit."""
        total = AreaEstimate()
        for planned in self.units:
            total += planned.estimate
        for segment in self.segments:
            if not segment.is_folded:
                total += estimate_skid(self.program[segment.result].out, segment.latency)
        return total

    @property
    def input(self) -> Signal:
        return self.program.input.out

    @property
    def output(self) -> Signal:
        return self.program.output.out


def make_design(program: Program, options: DesignOptions) -> Design:
    """Return the circuit of a program."""
    planned: list[PlannedUnit] = []
    files = {"skid_buffer.sv": SKID_BUFFER}
    for unit in make_units(program):
        module = f"{options.name}_{unit.name.lstrip('_')}"
        if unit.is_wiring:
            planned.append(PlannedUnit(unit, "unrolled", module, 0, 1, AreaEstimate()))
            continue
        strategy = _strategy(unit, options)
        made, new_files = _make(module, unit, strategy, options)
        planned.append(made)
        files |= new_files
    _check_names(planned, options)
    segments = _segments(planned, program)
    top, uses_delay = top_module(options.name, program, segments)
    if uses_delay:
        files["delay.sv"] = DELAY
    files[f"{options.name}.sv"] = HEADER + top
    return Design(options, program, tuple(planned), tuple(segments), dict(sorted(files.items())))


def _check_names(planned: list[PlannedUnit], options: DesignOptions) -> None:
    known = {node for each in planned for node in each.unit.nodes}
    unknown = [name for name in options.strategy if name != "default" and name not in known]
    if unknown:
        raise ValueError(f"strategy: there is no node '{unknown[0]}'; nodes: {', '.join(sorted(known))}")


def _strategy(unit: CircuitUnit, options: DesignOptions) -> Strategy:
    if not isinstance(unit.head, LinearMap):
        return "unrolled"  # rounding, maxima and tables have no multipliers to share
    given = [options.strategy[node] for node in unit.nodes if node in options.strategy]
    if given:
        return given[0]
    foldable = single_block(unit) is not None
    default = options.strategy.get("default")
    if default is not None and (default != "folded" or foldable):
        return default
    is_large = max(block.matrix.size for block in unit.head.blocks) > MAX_UNROLLED
    return "folded" if is_large and foldable else "unrolled"


def _make(
    module: str, unit: CircuitUnit, strategy: Strategy, options: DesignOptions
) -> tuple[PlannedUnit, dict[str, str]]:
    if strategy == "folded":
        folded = fold(unit, options.folding)
        text, roms = folded_module(module, folded)
        made = PlannedUnit(unit, strategy, module, folded.latency, folded.interval, estimate_folded(folded), folded)
        return made, {f"{module}.sv": text.text, **roms}
    modules = _unrolled(module, unit, options)
    first = modules[0]
    estimate = AreaEstimate(first.luts, first.num_register_bits)
    made = PlannedUnit(unit, "unrolled", module, first.latency, 1, estimate)
    return made, {f"{each.name}.sv": each.text for each in modules}


def _unrolled(module: str, unit: CircuitUnit, options: DesignOptions) -> list[ModuleText]:
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


def _segments(planned: list[PlannedUnit], program: Program) -> list[Segment]:
    """Cut the units into pipelines and folded units, which are connected by streams."""
    segments: list[Segment] = []
    source = program.input.name
    waiting: list[PlannedUnit] = []

    def close() -> None:
        nonlocal source
        if waiting:
            segments.append(Segment(source, waiting[-1].unit.result, tuple(waiting)))
            source = waiting[-1].unit.result
            waiting.clear()

    for each in planned:
        if each.folded is not None:
            close()
            segments.append(Segment(source, each.unit.result, (each,)))
            source = each.unit.result
        else:
            waiting.append(each)
    close()
    for segment in segments:
        inside = {segment.source, *(each.unit.result for each in segment.units)}
        for each in segment.units:
            outside = [name for name in each.unit.head.reads if name not in inside]
            if outside:
                raise ValueError(
                    f"node '{each.unit.node}' reads a result across a folded node, which is not supported; use the "
                    "strategy 'unrolled' for the nodes of this branch"
                )
    return segments
