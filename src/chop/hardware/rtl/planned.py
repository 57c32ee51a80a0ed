"""Units with their strategy and their modules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from chop.config import DesignOptions, Strategy
from chop.hardware.program.instructions import LinearMap
from chop.hardware.rtl.circuit import levels_between_registers
from chop.hardware.rtl.estimate import AreaEstimate, estimate_folded, estimate_line_buffer
from chop.hardware.rtl.folded import FoldedUnit, fold, folded_module, single_block
from chop.hardware.rtl.line_buffer import LineBuffer
from chop.hardware.rtl.module import ModuleText
from chop.hardware.rtl.pixel_units import PixelUnit, pixel_unit, window_of
from chop.hardware.rtl.units import CircuitUnit
from chop.hardware.rtl.unrolled import unrolled_modules

KEYWORDS = frozenset(
    """
accept_on alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking cmos config
const constraint context continue cover covergroup coverpoint cross deassign default defparam design disable
dist do edge else end endcase endchecker endclass endclocking endconfig endfunction endgenerate endgroup
endinterface endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable endtask
enum event eventually expect export extends extern final first_match for force foreach forever fork forkjoin
function generate genvar global highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import
incdir include initial inout input inside instance int integer interconnect interface intersect join join_any
join_none large let liblist library local localparam logic longint macromodule matches medium modport module
nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed
parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real realtime ref reg
reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1 s_always s_eventually s_nexttime
s_until s_until_with scalared sequence shortint shortreal showcancelled signed small soft solve specify
specparam static string strong strong0 strong1 struct super supply0 supply1 sync_accept_on sync_reject_on
table tagged task this throughout time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior
trireg type typedef union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void
wait wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor
""".split()  # noqa: SIM905
)
"""The reserved words of SystemVerilog (IEEE 1800-2017)."""
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
    if name in KEYWORDS or name == "testbench" or f"{name}.sv" in files:
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
    folded = fold(lane_unit, options)
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
    use_alkaid = options.solver == "alkaid"
    if options.stages is None:
        return unrolled_modules(module, unit, levels_between_registers(options), use_alkaid)
    cutoff = 1
    while True:
        modules = unrolled_modules(module, unit, cutoff, use_alkaid)
        if modules[0].latency <= options.stages:
            return modules
        cutoff += 1
