"""Simulation of a design: the test bench, the simulators, and the comparison with the integer program."""
