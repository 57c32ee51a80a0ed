"""Capturing a model as a graph, with torch.fx or with torch.export."""

from chop.ir.graph.capture.capture import Capture, capture_model
from chop.ir.graph.capture.errors import CaptureError, ExportError, TraceError

__all__ = ["Capture", "CaptureError", "ExportError", "TraceError", "capture_model"]
