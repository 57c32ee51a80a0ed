"""Designs as plain data, for metadata, manifests and tables."""

from __future__ import annotations

from typing import Any

from chop.hardware.program import Signal
from chop.hardware.program.instructions import LinearMap, Requantize
from chop.hardware.rtl.design import Design, PlannedUnit
from chop.hardware.rtl.units import CircuitUnit

HEADINGS = ("node", "strategy", "input", "accumulator", "output", "LUT", "FF", "DSP", "latency", "interval")


def describe_signal(signal: Signal, lanes: int | None = None) -> dict[str, Any]:
    """Return shape, lanes (elements per cycle), width, fraction bits and sign of a port."""
    fractions = sorted(set(signal.frac.ravel().tolist()))
    return {
        "shape": list(signal.shape),
        "lanes": signal.numel if lanes is None else lanes,
        "width": signal.width,
        "frac": fractions[0] if len(fractions) == 1 else fractions,
        "signed": signal.signed,
    }


def describe_units(design: Design) -> list[dict[str, Any]]:
    """Return what is known about each unit, in the order in which they compute."""
    starts = design.starts()
    return [
        {**describe_unit(planned), "start": starts[planned.unit.name]}
        for planned in design.units
        if not planned.unit.is_wiring
    ]


def describe_unit(planned: PlannedUnit) -> dict[str, Any]:
    """Return strategy, ports, accumulator, requantisation, timing and estimated area of a unit."""
    unit = planned.unit
    head = unit.head
    ports = {f"data_in_{i}": describe_signal(source) for i, source in enumerate(unit.sources)}
    ports["data_out_0"] = describe_signal(unit.out)
    return {
        "nodes": list(unit.nodes),
        "kind": head.kind if isinstance(head, LinearMap) else type(head).__name__.lower(),
        "strategy": planned.strategy,
        "module": planned.module,
        "ports": ports,
        "accumulator": {"width": head.out.width, "bound": head.bound} if isinstance(head, LinearMap) else None,
        "requantization": _requantization(unit),
        "latency": planned.latency,
        "interval": planned.interval,
        "estimate": vars(planned.estimate),
        "verilog_param": _parameters(planned),
    }


def table_rows(design: Design) -> list[tuple[object, ...]]:
    """Return the rows of the table of a design, under `HEADINGS`, with a last row for all of it."""
    rows: list[tuple[object, ...]] = []
    for planned in design.units:
        unit, area = planned.unit, planned.estimate
        if unit.is_wiring:
            continue
        accumulator = _bits(unit.head.out) if isinstance(unit.head, LinearMap) else ""
        inputs = ", ".join(_bits(source) for source in unit.sources)
        rows.append(
            (unit.node, planned.strategy, inputs, accumulator, _bits(unit.out), area.lut, area.ff, area.dsp,
             planned.latency, planned.interval)
        )  # fmt: skip
    total = design.estimate
    ends = _bits(design.input), "", _bits(design.output)
    return [*rows, ("total", "", *ends, total.lut, total.ff, total.dsp, design.latency, design.interval)]


def _bits(signal: Signal) -> str:
    return f"{signal.numel} x {signal.width}"


def _requantization(unit: CircuitUnit) -> list[dict[str, Any]]:
    return [
        {"shift": sorted(set(post.shift.tolist())), "rounding": post.rounding, "width": post.out.width}
        for post in (unit.head, *unit.posts)
        if isinstance(post, Requantize)
    ]


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
