"""Modules that every design may use."""

from __future__ import annotations

from chop.hardware.rtl.module import HEADER

SKID_BUFFER = (
    HEADER
    + """// Holds one word, so that in_ready is a register and no path leads from out_ready to in_ready.
module skid_buffer #(
    parameter int WIDTH = 1
) (
    input  logic clk,
    input  logic rst,
    input  logic in_valid,
    output logic in_ready,
    input  logic [WIDTH-1:0] in_data,
    output logic out_valid,
    input  logic out_ready,
    output logic [WIDTH-1:0] out_data
);
    logic held;
    logic [WIDTH-1:0] data;
    assign out_valid = held | (in_valid & in_ready);
    assign out_data = held ? data : in_data;
    always_ff @(posedge clk) begin
        if (rst) begin
            held <= 1'b0;
            in_ready <= 1'b0;
        end else begin
            held <= out_valid & ~out_ready;
            in_ready <= ~(out_valid & ~out_ready);
        end
        if (in_ready) data <= in_data;
    end
endmodule
"""
)
DELAY = (
    HEADER
    + """// A word, some cycles later.
module delay #(
    parameter int WIDTH = 1,
    parameter int CYCLES = 1
) (
    input  logic clk,
    input  logic enable,
    input  logic [WIDTH-1:0] in_data,
    output logic [WIDTH-1:0] out_data
);
    logic [WIDTH-1:0] words [CYCLES];
    assign out_data = words[CYCLES-1];
    always_ff @(posedge clk) begin
        if (enable) begin
            words[0] <= in_data;
            for (int i = 1; i < CYCLES; i++) words[i] <= words[i-1];
        end
    end
endmodule
"""
)
