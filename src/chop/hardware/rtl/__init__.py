"""SystemVerilog of an integer program."""
