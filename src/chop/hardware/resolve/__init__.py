"""Preparing a graph for hardware: batch norms folded or made affine, and every missing number format completed."""

from chop.hardware.resolve.batch_norm import fold_batch_norms
from chop.hardware.resolve.formats import Resolved, resolve_formats

__all__ = ["Resolved", "fold_batch_norms", "resolve_formats"]
