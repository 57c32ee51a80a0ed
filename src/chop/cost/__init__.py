"""What a node costs: pure functions of its metadata."""

from chop.cost.bitops import bitops
from chop.cost.conventions import CONVENTIONS, Convention, Work
from chop.cost.memory import Storage, input_storage, weight_storage
from chop.cost.operations import count, flops, is_floating_point, operations

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Storage",
    "Work",
    "bitops",
    "count",
    "flops",
    "input_storage",
    "is_floating_point",
    "operations",
    "weight_storage",
]
