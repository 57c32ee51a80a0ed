"""Passes over graphs."""

from chop.passes.graph.analysis import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calculate_avg_bits_mg_analysis_pass,
    compare_graphs_analysis_pass,
    count_bitops_analysis_pass,
    count_flops_analysis_pass,
    estimate_cost_analysis_pass,
    explain_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
    report_graph_analysis_pass,
    report_html_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
    sensitivity_analysis_pass,
    verify_common_metadata_analysis_pass,
    verify_quantization_analysis_pass,
)
from chop.passes.graph.analysis.explain import explain, explain_node
from chop.passes.graph.interface import (
    load_mase_graph_interface_pass,
    load_node_meta_param_interface_pass,
    save_mase_graph_interface_pass,
    save_node_meta_param_interface_pass,
)
from chop.passes.graph.transforms import (
    calibrate_transform_pass,
    quantize_transform_pass,
    summarize_quantization_analysis_pass,
)

__all__ = [
    "add_common_metadata_analysis_pass",
    "add_software_metadata_analysis_pass",
    "calculate_avg_bits_mg_analysis_pass",
    "calibrate_transform_pass",
    "compare_graphs_analysis_pass",
    "count_bitops_analysis_pass",
    "count_flops_analysis_pass",
    "estimate_cost_analysis_pass",
    "explain",
    "explain_analysis_pass",
    "explain_node",
    "init_metadata_analysis_pass",
    "load_mase_graph_interface_pass",
    "load_node_meta_param_interface_pass",
    "profile_statistics_analysis_pass",
    "quantize_transform_pass",
    "report_graph_analysis_pass",
    "report_html_analysis_pass",
    "report_node_meta_param_analysis_pass",
    "report_node_shape_analysis_pass",
    "report_node_type_analysis_pass",
    "save_mase_graph_interface_pass",
    "save_node_meta_param_interface_pass",
    "sensitivity_analysis_pass",
    "summarize_quantization_analysis_pass",
    "verify_common_metadata_analysis_pass",
    "verify_quantization_analysis_pass",
]
