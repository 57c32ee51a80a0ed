"""From a quantised graph to a circuit: the integer program, its SystemVerilog, simulation, area and estimate."""
