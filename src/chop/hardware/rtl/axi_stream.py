"""An optional top module with AXI4-Stream ports."""

from __future__ import annotations

from chop.hardware.rtl.module import HEADER
from chop.hardware.rtl.streams import Stream


def axi_stream_module(name: str, source: Stream, result: Stream) -> str:
    """Return a module around `name`: TDATA in whole bytes, TLAST set in the last word of each vector."""
    in_bits, out_bits = source.bits, result.bits
    in_bytes, out_bytes = -(-in_bits // 8), -(-out_bits // 8)
    data = "out_data" if out_bits == 8 * out_bytes else f"{{{8 * out_bytes - out_bits}'d0, out_data}}"
    return (
        HEADER
        + f"""module {name}_axis (
    input  logic aclk,
    input  logic aresetn,
    input  logic s_axis_tvalid,
    output logic s_axis_tready,
    input  logic [{8 * in_bytes - 1}:0] s_axis_tdata,
    input  logic s_axis_tlast,
    output logic m_axis_tvalid,
    input  logic m_axis_tready,
    output logic [{8 * out_bytes - 1}:0] m_axis_tdata,
    output logic m_axis_tlast
);
    wire [{out_bits - 1}:0] out_data;
    wire unused = &{{1'b0, s_axis_tdata, s_axis_tlast}};
    assign m_axis_tdata = {data};
{_last(result.beats)}
    {name} core (
        .clk(aclk), .rst(~aresetn), .in_valid(s_axis_tvalid), .in_ready(s_axis_tready),
        .in_data(s_axis_tdata[{in_bits - 1}:0]), .out_valid(m_axis_tvalid), .out_ready(m_axis_tready),
        .out_data(out_data)
    );
endmodule
"""
    )


def _last(beats: int) -> str:
    """Return what sets TLAST."""
    if beats == 1:
        return "    assign m_axis_tlast = 1'b1;  // every word is a complete vector"
    bits = (beats - 1).bit_length()
    return f"""    logic [{bits - 1}:0] word;
    assign m_axis_tlast = word == {bits}'d{beats - 1};
    always_ff @(posedge aclk) begin
        if (~aresetn) word <= '0;
        else if (m_axis_tvalid & m_axis_tready) word <= m_axis_tlast ? '0 : word + 1'b1;
    end"""
