"""The integer program of a graph, which the numpy interpreter, the SystemVerilog and the estimate are made from."""

from chop.hardware.program.instructions import Instruction
from chop.hardware.program.lowering import lower
from chop.hardware.program.program import Program
from chop.hardware.program.signal import Signal

__all__ = ["Instruction", "Program", "Signal", "lower"]
