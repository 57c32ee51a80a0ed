"""Passes that save graphs and metadata to files, and load them."""

# mypy: implicit-reexport

from chop.passes.graph.interface.export import (
    export_onnx_interface_pass,
    export_qonnx_interface_pass,
    export_safetensors_interface_pass,
)
from chop.passes.graph.interface.storage import (
    load_mase_graph_interface_pass,
    load_node_meta_param_interface_pass,
    save_mase_graph_interface_pass,
    save_node_meta_param_interface_pass,
)

__all__ = [name for name in dir() if name.endswith("_pass")]
