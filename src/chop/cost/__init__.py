"""The cost of nodes and graphs: pure functions of their metadata."""

from chop.cost.conventions import CONVENTIONS, Convention, Product, Work
from chop.cost.energy import Energy, energy
from chop.cost.estimate import Estimate, NodeCost, TotalCost, estimate
from chop.cost.memory import Storage, input_storage, weight_storage
from chop.cost.operations import bitops, count, flops, is_floating_point, operations
from chop.cost.parameters import parameter_storage, parameters, weight_bits
from chop.cost.peak_activations import Activations, activations
from chop.cost.roofline import Device, Time, arithmetic_intensity, estimate_time, moved_bits
from chop.cost.storage_formats import as_stored, in_formats, tensor_bits

__all__ = [
    "CONVENTIONS",
    "Activations",
    "Convention",
    "Device",
    "Energy",
    "Estimate",
    "NodeCost",
    "Product",
    "Storage",
    "Time",
    "TotalCost",
    "Work",
    "activations",
    "arithmetic_intensity",
    "as_stored",
    "bitops",
    "count",
    "energy",
    "estimate",
    "estimate_time",
    "flops",
    "in_formats",
    "input_storage",
    "is_floating_point",
    "moved_bits",
    "operations",
    "parameter_storage",
    "parameters",
    "tensor_bits",
    "weight_bits",
    "weight_storage",
]
