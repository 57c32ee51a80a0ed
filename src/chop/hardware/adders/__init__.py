"""Products with constants as additions of shifted values, without multipliers."""

from chop.hardware.adders.adder_graph import AdderGraph, AdderOutput, Addition
from chop.hardware.adders.solve import solve

__all__ = ["AdderGraph", "AdderOutput", "Addition", "solve"]
