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
PIXELS_TO_VECTOR = (
    HEADER
    + """// Collects all pixels of an image into one word, in the order channel, pixel.
module pixels_to_vector #(
    parameter int WIDTH = 1,
    parameter int CHANNELS = 1,
    parameter int PIXELS = 2
) (
    input  logic clk,
    input  logic rst,
    input  logic in_valid,
    output logic in_ready,
    input  logic [CHANNELS*WIDTH-1:0] in_data,
    output logic out_valid,
    input  logic out_ready,
    output logic [PIXELS*CHANNELS*WIDTH-1:0] out_data
);
    localparam int BITS = CHANNELS * WIDTH;
    logic [PIXELS*BITS-1:0] pixels;
    logic [PIXELS-1:0] next;  // one bit marks the pixel that arrives next
    assign in_ready = ~out_valid | out_ready;
    always_ff @(posedge clk) begin
        if (rst) begin
            out_valid <= 1'b0;
            next <= PIXELS'(1);
        end else begin
            if (in_ready) out_valid <= in_valid & next[PIXELS-1];
            if (in_valid & in_ready) next <= {next[PIXELS-2:0], next[PIXELS-1]};
        end
        if (in_valid & in_ready) pixels <= {in_data, pixels[PIXELS*BITS-1:BITS]};
    end
    for (genvar c = 0; c < CHANNELS; c++) begin : channels
        for (genvar p = 0; p < PIXELS; p++) begin : pixels_of
            assign out_data[(c*PIXELS+p)*WIDTH +: WIDTH] = pixels[(p*CHANNELS+c)*WIDTH +: WIDTH];
        end
    end
endmodule
"""
)
VECTOR_TO_PIXELS = (
    HEADER
    + """// Sends the pixels of a word one after the other; the word is in the order channel, pixel.
module vector_to_pixels #(
    parameter int WIDTH = 1,
    parameter int CHANNELS = 1,
    parameter int PIXELS = 2
) (
    input  logic clk,
    input  logic rst,
    input  logic in_valid,
    output logic in_ready,
    input  logic [PIXELS*CHANNELS*WIDTH-1:0] in_data,
    output logic out_valid,
    input  logic out_ready,
    output logic [CHANNELS*WIDTH-1:0] out_data
);
    localparam int BITS = CHANNELS * WIDTH;
    wire [PIXELS*BITS-1:0] ordered;
    logic [PIXELS*BITS-1:0] pixels;
    logic [PIXELS-1:0] left;  // one bit per pixel that was not sent
    for (genvar c = 0; c < CHANNELS; c++) begin : channels
        for (genvar p = 0; p < PIXELS; p++) begin : pixels_of
            assign ordered[(p*CHANNELS+c)*WIDTH +: WIDTH] = in_data[(c*PIXELS+p)*WIDTH +: WIDTH];
        end
    end
    assign out_valid = left[0];
    assign out_data = pixels[BITS-1:0];
    assign in_ready = ~left[0] | (~left[1] & out_ready);
    always_ff @(posedge clk) begin
        if (rst) left <= '0;
        else if (in_ready) left <= {PIXELS{in_valid}};
        else if (out_ready) left <= {1'b0, left[PIXELS-1:1]};
        if (in_ready) pixels <= ordered;
        else if (out_ready) pixels <= {BITS'(0), pixels[PIXELS*BITS-1:BITS]};
    end
endmodule
"""
)
STREAM_FIFO = (
    HEADER
    + """// A queue of words, for a branch that waits for another one.
module stream_fifo #(
    parameter int WIDTH = 1,
    parameter int DEPTH = 2
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
    localparam int BITS = $clog2(DEPTH);
    logic [WIDTH-1:0] words [DEPTH];
    logic [BITS-1:0] head, tail;
    logic [BITS:0] count;
    wire push = in_valid & in_ready;
    wire pop = out_valid & out_ready;
    assign in_ready = count != (BITS+1)'(DEPTH);
    assign out_valid = count != '0;
    assign out_data = words[head];
    always_ff @(posedge clk) begin
        if (rst) begin
            head <= '0;
            tail <= '0;
            count <= '0;
        end else begin
            if (push) tail <= tail == BITS'(DEPTH - 1) ? '0 : tail + 1'b1;
            if (pop) head <= head == BITS'(DEPTH - 1) ? '0 : head + 1'b1;
            count <= count + {{BITS{1'b0}}, push} - {{BITS{1'b0}}, pop};
        end
        if (push) words[tail] <= in_data;
    end
endmodule
"""
)
