"""A graph as nodes of ONNX: one function per op, and one class per kind of quantiser."""
