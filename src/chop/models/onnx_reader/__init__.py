"""Reading ONNX and QONNX files as graphs with number formats."""
