    wire [`TDATA_HIGH:0] m_axis_tdata;
    wire m_axis_tlast;
    assign out_data = m_axis_tdata[`OUT_HIGH:0];
    wire out_last = m_axis_tlast & (`ZEROS);
    `NAME_axis dut (
        .aclk(clk), .aresetn(~rst), .s_axis_tvalid(in_valid), .s_axis_tready(in_ready),
        .s_axis_tdata(`SENT), .s_axis_tlast((sent + 1) % `IN_WORDS == 0),
        .m_axis_tvalid(out_valid), .m_axis_tready(out_ready), .m_axis_tdata(m_axis_tdata),
        .m_axis_tlast(m_axis_tlast)
    );
