// `IN_WORDS words per vector, `OUT_WORDS per result.
// Plus arguments: +count=N vectors, +bubbles=P and +stalls=P in percent, +reset=CYCLE, +seed=S,
// +probe to show the result of every unit for the first vector
module `TOP;
    logic clk = 1'b0;
    logic rst = 1'b1;
    always #2 clk = ~clk;

    logic [`IN_HIGH:0] words [0:`LAST_WORD];
    integer entered [0:`LAST_VECTOR];
    integer count, bubbles, stalls, reset_at, seed, sent, received, cycle, idle, file;  // sent, received: words

    logic in_valid = 1'b0;
    wire in_ready;
    logic [`IN_HIGH:0] in_data = '0;
    wire out_valid;
    logic out_ready = 1'b0;
    wire [`OUT_HIGH:0] out_data;
    `INSTANCE

    // A 32-bit xorshift, so that every simulator draws the same numbers.
    logic [31:0] state;
    task automatic draw(output integer percent);
        state = state ^ (state << 13);
        state = state ^ (state >> 17);
        state = state ^ (state << 5);
        percent = int'(state % 32'd100);
    endtask

    // Inputs change at the falling edge and are stable at the rising edge, at which transfers happen.
    integer drawn;
    logic taken = 1'b0;
    task automatic run_all;
        while (received < count * `OUT_WORDS) begin
            @(negedge clk);
            cycle = cycle + 1;
            rst = cycle == reset_at;
            if (taken || rst) in_valid = 1'b0;
            if (rst) begin
                out_ready = 1'b0;
                received = received - received % `OUT_WORDS;
                sent = received / `OUT_WORDS * `IN_WORDS;
            end else begin
                if (!in_valid && sent < count * `IN_WORDS) begin
                    draw(drawn);
                    in_valid = drawn >= bubbles;
                    in_data = words[sent];
                end
                draw(drawn);
                out_ready = drawn >= stalls;
            end
            #1;
            taken = !rst && in_valid && in_ready;
            if (taken) begin
                if (sent % `IN_WORDS == 0) entered[sent / `IN_WORDS] = cycle;
                sent = sent + 1;
                idle = 0;
            end
            if (!rst && out_valid && out_ready) begin
                $fdisplay(file, "%0d %h %0d %0d", received, out_data, entered[received / `OUT_WORDS], cycle);
                if (out_last != ((received + 1) % `OUT_WORDS == 0)) $fdisplay(file, "`WRONG_LAST %0d", received);
                received = received + 1;
                idle = 0;
            end
            idle = idle + 1;
            if (idle > `PATIENCE) begin
                $fdisplay(file, "stuck");
                $fclose(file);
                $finish;
                received = count * `OUT_WORDS;
            end
        end
    endtask

    logic probing = 1'b0;
    always @(posedge clk) if (probing) begin
        // results that pass pixel by pixel
`LOGGED
    end
    task automatic probe;
        file = $fopen("`PROBES_FILE", "w");
        out_ready = 1'b1;
        probing = 1'b1;
        while (sent < `IN_WORDS) begin
            in_data = words[sent];
            in_valid = 1'b1;
            #1 taken = in_ready;
            @(negedge clk);
            if (taken) sent = sent + 1;
        end
        in_valid = 1'b0;
        repeat (`SETTLE) @(negedge clk);
        probing = 1'b0;
`SHOWN
        $fclose(file);
    endtask

    initial begin
        if (!$value$plusargs("count=%d", count)) count = 1;
        if (!$value$plusargs("bubbles=%d", bubbles)) bubbles = 0;
        if (!$value$plusargs("stalls=%d", stalls)) stalls = 0;
        if (!$value$plusargs("reset=%d", reset_at)) reset_at = -1;
        if (!$value$plusargs("seed=%d", seed)) seed = 1;
        state = 32'(seed) ^ 32'h9e3779b9;
        sent = 0;
        received = 0;
        cycle = 0;
        idle = 0;
        $readmemh("`VECTORS_FILE", words, 0, count * `IN_WORDS - 1);
        repeat (3) @(negedge clk);
        rst = 1'b0;
        repeat (2) @(negedge clk);
        if ($test$plusargs("probe")) probe();
        else begin
            file = $fopen("`RESULTS_FILE", "w");
            run_all();
            $fclose(file);
        end
        $finish;
    end
endmodule
