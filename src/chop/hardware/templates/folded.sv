module `NAME #(
    parameter WEIGHTS = `WEIGHTS_FILE,
    parameter BIASES = `BIASES_FILE
) (
    input  logic clk,
    input  logic rst,
    input  logic in_valid,
    output logic in_ready,
    input  logic [`IN_HIGH:0] in_data,
    output logic out_valid,
    input  logic out_ready,
    output logic [`OUT_HIGH:0] out_data
);
    // `GROUPS_IN x `GROUPS_OUT steps of `P_IN inputs and `P_OUT outputs
    logic [`WEIGHTS_HIGH:0] weight_rom [`NUM_STEPS];
    logic [`BIASES_HIGH:0] bias_rom [`GROUPS_OUT];
    initial $readmemh(WEIGHTS, weight_rom);
    initial $readmemh(BIASES, bias_rom);

    logic busy, issuing;
    logic [`STEP_HIGH:0] step;
    logic [`COLUMN_HIGH:0] column;
    logic [`ROW_HIGH:0] row;
    logic [`X_HIGH:0] x;
    wire last_column = column == `COLUMN_BITS'd`LAST_COLUMN;
    wire last_row = row == `ROW_BITS'd`LAST_ROW;
    assign in_ready = ~busy;

    logic first_q, last_q, done_q, valid_q;
    logic [`X_Q_HIGH:0] x_q;
    logic [`WEIGHTS_HIGH:0] weights_q;
    logic [`BIASES_HIGH:0] biases_q, biases_p, biases_s;
    logic first_p, last_p, done_p, valid_p;
    logic first_s, last_s, done_s, valid_s;
    logic last_a, done_a;
    logic signed [`PRODUCT_HIGH:0] products [`NUM_PRODUCTS];
    logic signed [`ACC_HIGH:0] sums [`P_OUT];
    logic signed [`ACC_HIGH:0] totals [`P_OUT];
    logic [`RESULTS_HIGH:0] results;
    logic [`Y_HIGH:0] y;
    assign out_data = y[`OUT_HIGH:0];

    always_ff @(posedge clk) begin
        if (rst) begin
            busy <= 1'b0;
            issuing <= 1'b0;
            out_valid <= 1'b0;
            {valid_q, valid_p, valid_s} <= '0;
            {last_q, last_p, last_s, last_a} <= '0;
            {done_q, done_p, done_s, done_a} <= '0;
        end else begin
            if (in_valid & in_ready) begin
                busy <= 1'b1;
                issuing <= 1'b1;
            end else if (last_column & last_row) issuing <= 1'b0;
            if (out_valid & out_ready) begin
                busy <= 1'b0;
                out_valid <= 1'b0;
            end
            if (done_a) out_valid <= 1'b1;
            valid_q <= issuing;
            last_q <= issuing & last_column;
            done_q <= issuing & last_column & last_row;
            {valid_p, last_p, done_p} <= {valid_q, last_q, done_q};
            {valid_s, last_s, done_s} <= {valid_p, last_p, done_p};
            {last_a, done_a} <= {last_s, done_s};
        end
        if (~issuing) begin
            step <= '0;
            column <= '0;
            row <= '0;
        end else begin
            step <= step + 1'b1;
            column <= last_column ? '0 : column + 1'b1;
            if (last_column) row <= row + 1'b1;
        end
        if (in_valid & in_ready) x <= `LOADED;
        else if (issuing) x <= `ROTATED;
        first_q <= column == '0;
        {first_p, first_s} <= {first_q, first_p};
        x_q <= x[`X_Q_HIGH:0];
        weights_q <= weight_rom[step];
        biases_q <= bias_rom[row];
        {biases_p, biases_s} <= {biases_q, biases_p};
        if (last_a) y <= `COLLECTED;
    end

    for (genvar k = 0; k < `P_OUT; k++) begin : lanes
        for (genvar l = 0; l < `P_IN; l++) begin : products_of
            wire signed [`OPERAND_HIGH:0] operand = `OPERAND;
            wire signed [`WEIGHT_HIGH:0] weight =
                weights_q[(k * `P_IN + l) * `WEIGHT_WIDTH +: `WEIGHT_WIDTH];
            always_ff @(posedge clk) products[k * `P_IN + l] <= operand * weight;
        end
        logic signed [`ACC_HIGH:0] sum;
        always_comb begin
            sum = '0;
            for (int l = 0; l < `P_IN; l++) sum = sum + `ACC'(products[k * `P_IN + l]);
        end
        wire signed [`BIAS_HIGH:0] bias = biases_s[k * `BIAS_WIDTH +: `BIAS_WIDTH];
        wire signed [`ACC_HIGH:0] total = totals[k];
        always_ff @(posedge clk) begin
            sums[k] <= sum;
            if (valid_s) totals[k] <= (first_s ? `ACC'(bias) : totals[k]) + sums[k];
        end
        `REQUANTIZATION
        assign results[k * `OUT_WIDTH +: `OUT_WIDTH] = `RESULT;
        wire unused = &{`IGNORED};
    end
endmodule
