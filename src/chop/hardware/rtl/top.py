"""The top module: segments connected by ready/valid streams."""

from __future__ import annotations

from chop.hardware.rtl.connect import Network
from chop.hardware.rtl.streams import Stream


def stream_wires(network: Network) -> dict[str, str]:
    """Return by stream the first part of the names of its wires inside the top module."""
    return {name: f"s{number}" for number, name in enumerate(network.streams)}


def top_module(name: str, network: Network) -> str:
    """Return the text of the top module."""
    streams, wires = network.streams, stream_wires(network)
    first, last = wires[network.source], wires[network.result]
    lines = [line for key, stream in streams.items() for line in _declared(wires[key], stream)]
    lines += [
        f"assign {first}_valid = in_valid;",
        f"assign in_ready = {first}_ready;",
        f"assign {first}_data = in_data;",
        f"assign out_valid = {last}_valid;",
        f"assign {last}_ready = out_ready;",
        f"assign out_data = {last}_data;",
    ]
    for key in streams:
        readers = [segment for segment in network.segments if key in segment.sources]
        if len(readers) > 1:
            lines += _fork(wires[key], streams[key], len(readers))
    seen: dict[str, int] = {}
    for segment in network.segments:
        own = dict(wires)
        for key in segment.sources:
            if sum(key in other.sources for other in network.segments) > 1:
                own[key] = f"{wires[key]}_to{seen.get(key, 0)}"
                seen[key] = seen.get(key, 0) + 1
        lines += segment.lines(own, streams)
    text = [
        f"// in_data: {_described(streams[network.source])}",
        f"// out_data: {_described(streams[network.result])}",
        f"module {name} (",
        "    input  logic clk,",
        "    input  logic rst,",
        "    input  logic in_valid,",
        "    output logic in_ready,",
        f"    input  logic [{streams[network.source].bits - 1}:0] in_data,",
        "    output logic out_valid,",
        "    input  logic out_ready,",
        f"    output logic [{streams[network.result].bits - 1}:0] out_data",
        ");",
        *(f"    {line}" for line in lines),
        "endmodule",
        "",
    ]
    return "\n".join(text)


def _declared(wire: str, stream: Stream) -> list[str]:
    return [f"wire {wire}_valid;", f"wire {wire}_ready;", f"wire [{stream.bits - 1}:0] {wire}_data;"]


def _fork(wire: str, stream: Stream, count: int) -> list[str]:
    """Return the branches of a stream, which take a word in the same cycle."""
    lines = []
    for number in range(count):
        branch = f"{wire}_to{number}"
        others = [f"{wire}_to{other}_ready" for other in range(count) if other != number]
        lines += _declared(branch, stream)
        lines.append(f"assign {branch}_data = {wire}_data;")
        lines.append(f"assign {branch}_valid = {' & '.join([f'{wire}_valid', *others])};")
    ready = " & ".join(f"{wire}_to{number}_ready" for number in range(count))
    # Declared before they are used: some tools need it.
    lines.sort(key=lambda line: line.startswith("assign"))
    return [*lines, f"assign {wire}_ready = {ready};"]


def _described(stream: Stream) -> str:
    signal = stream.lanes
    fraction = sorted(set(signal.frac.ravel().tolist()))
    sign = "signed" if signal.signed else "unsigned"
    shown = str(fraction[0]) if len(fraction) == 1 else f"{fraction[0]} to {fraction[-1]}"
    words = f", {stream.beats} words per vector" if stream.beats > 1 else ""
    return f"{signal.numel} elements of {signal.width} bits, {sign}, {shown} fraction bits, element 0 lowest{words}"
