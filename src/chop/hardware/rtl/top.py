"""The top module: segments connected by ready/valid streams, or these behind AXI4-Stream ports."""

from __future__ import annotations

from chop.hardware.rtl.connect import Network
from chop.hardware.rtl.streams import Stream
from chop.hardware.templates import fill, indented


def stream_wires(network: Network) -> dict[str, str]:
    """Return by stream the first part of the names of its wires inside the top module."""
    return {name: f"s{number}" for number, name in enumerate(network.streams)}


def top_module(name: str, network: Network) -> str:
    """Return the text of the top module."""
    streams, wires = network.streams, stream_wires(network)
    lines: list[str] = []
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
    first, last = streams[network.source], streams[network.result]
    return fill(
        "top.sv",
        INPUT=_described(first),
        OUTPUT=_described(last),
        NAME=name,
        IN_HIGH=first.bits - 1,
        OUT_HIGH=last.bits - 1,
        FIRST=wires[network.source],
        LAST=wires[network.result],
        STREAMS=indented(line for key, stream in streams.items() for line in _declared(wires[key], stream)),
        SEGMENTS=indented(lines),
    )


def axi_stream_module(name: str, source: Stream, result: Stream) -> str:
    """Return a module around `name`: TDATA in whole bytes, TLAST set in the last word of each vector."""
    in_bytes, out_bytes = -(-source.bits // 8), -(-result.bits // 8)
    padding = 8 * out_bytes - result.bits
    bits = (result.beats - 1).bit_length()
    last = [
        f"logic [{bits - 1}:0] word;",
        f"assign m_axis_tlast = word == {bits}'d{result.beats - 1};",
        "always_ff @(posedge aclk) begin",
        "    if (~aresetn) word <= '0;",
        "    else if (m_axis_tvalid & m_axis_tready) word <= m_axis_tlast ? '0 : word + 1'b1;",
        "end",
    ]
    return fill(
        "axi_stream.sv",
        NAME=name,
        IN_HIGH=source.bits - 1,
        IN_BYTES_HIGH=8 * in_bytes - 1,
        OUT_HIGH=result.bits - 1,
        OUT_BYTES_HIGH=8 * out_bytes - 1,
        PADDED=f"{{{padding}'d0, out_data}}" if padding else "out_data",
        LAST=indented(last) if bits else "assign m_axis_tlast = 1'b1;  // every word is a complete vector",
    )


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
