"""Designs as plain data, for metadata, manifests and tables."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate

from chop.hardware.program import Signal
from chop.hardware.program.instructions import LinearMap, Requantize
from chop.hardware.rtl.design import Design, UnitTiming
from chop.hardware.rtl.planned import PlannedUnit
from chop.hardware.rtl.streams import Stream

_HEADINGS = ("node", "strategy", "input", "accumulator", "output", "LUT", "FF", "DSP", "latency", "interval")


def describe_signal(signal: Signal, lanes: int | None = None) -> dict[str, Any]:
    """Return shape, lanes (elements per cycle), width, sign and fraction bits of a port; a list if these differ."""
    fractions = signal.frac.ravel().tolist()
    return {
        "shape": list(signal.shape),
        "lanes": signal.numel if lanes is None else lanes,
        "width": signal.width,
        "frac": fractions[0] if len(set(fractions)) == 1 else fractions,
        "signed": signal.signed,
    }


def describe_units(design: Design) -> list[dict[str, Any]]:
    """Return what is known about each unit, in the order in which they compute."""
    timings = design.timings()
    return [_describe_unit(planned, timings[planned.unit.name]) for planned in computing_units(design)]


def computing_units(design: Design) -> list[PlannedUnit]:
    """Return the units that are more than wires."""
    return [each for each in design.units if not each.unit.is_wiring]


def _describe_unit(planned: PlannedUnit, timing: UnitTiming) -> dict[str, Any]:
    """Return strategy, ports, accumulator, requantisation, timing and estimated area of a unit."""
    unit = planned.unit
    head = unit.head

    def described(signal: Signal) -> dict[str, Any]:
        return describe_signal(signal, signal.shape[0] if planned.is_by_pixel else None)

    ports = {f"data_in_{i}": described(source) for i, source in enumerate(unit.sources)}
    ports["data_out_0"] = described(unit.out)
    return {
        "nodes": list(unit.nodes),
        "kind": head.kind if isinstance(head, LinearMap) else type(head).__name__.lower(),
        "strategy": planned.strategy,
        "module": planned.module,
        "ports": ports,
        "accumulator": {"width": head.out.width, "bound": head.bound} if isinstance(head, LinearMap) else None,
        "requantization": [
            {"shift": sorted(set(post.shift.tolist())), "rounding": post.rounding, "width": post.out.width}
            for post in (head, *unit.posts)
            if isinstance(post, Requantize)
        ],
        "start": timing.start,
        "latency": timing.latency,
        "interval": timing.interval,
        "estimate": vars(planned.area),
        "verilog_param": _parameters(planned),
    }


def design_table(design: Design) -> str:
    """Return widths, estimated area and timing of each part of a circuit, and of all of it, as text."""
    rows: list[tuple[object, ...]] = []
    timings = design.timings()
    for planned in computing_units(design):
        unit, area, timing = planned.unit, planned.area, timings[planned.unit.name]
        accumulator = _bits(unit.head.out) if isinstance(unit.head, LinearMap) else ""
        inputs = ", ".join(_bits(source) for source in unit.sources)
        rows.append(
            (unit.node, planned.strategy, inputs, accumulator, _bits(unit.out), area.lut, area.ff, area.dsp,
             timing.latency, timing.interval)
        )  # fmt: skip
    total = design.estimate
    ends = _bits(design.input), "", _bits(design.output)
    rows.append(("total", "", *ends, total.lut, total.ff, total.dsp, design.latency, design.interval))
    note = "LUT, FF and DSP are estimates for a Xilinx 7 series FPGA; latency and interval are clock cycles"
    return f"\n{tabulate(rows, _HEADINGS)}\n{note}\n"


def describe_stream(signal: Signal, stream: Stream) -> dict[str, Any]:
    """Return the port of a complete circuit, with the words per vector if there are several."""
    described = describe_signal(signal, stream.lanes.numel)
    return described if stream.beats == 1 else {**described, "beats": stream.beats}


def _bits(signal: Signal) -> str:
    return f"{signal.numel} x {signal.width}"


def _parameters(planned: PlannedUnit) -> dict[str, Any]:
    """Return the numbers that define the ports, under the names that MASE gives the parameters of its modules."""
    found: dict[str, Any] = {}
    signals = {f"DATA_IN_{i}": source for i, source in enumerate(planned.unit.sources)}
    for name, signal in {**signals, "DATA_OUT_0": planned.unit.out}.items():
        found[f"{name}_PRECISION_0"] = signal.width
        found[f"{name}_PRECISION_1"] = int(signal.frac.max())
        for dim, size in enumerate(reversed(signal.shape)):
            found[f"{name}_TENSOR_SIZE_DIM_{dim}"] = size
    if planned.folded is not None:
        _, _, p_out, p_in = planned.folded.weights.shape
        found |= {"DATA_IN_0_PARALLELISM_DIM_0": p_in, "DATA_OUT_0_PARALLELISM_DIM_0": p_out}
    return found
