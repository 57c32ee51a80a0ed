"""Passes over graphs."""

# mypy: implicit-reexport

from chop.passes.graph.analysis import (
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    add_pruning_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calculate_avg_bits_mg_analysis_pass,
    compare_graphs_analysis_pass,
    cosimulate_analysis_pass,
    count_bitops_analysis_pass,
    count_flops_analysis_pass,
    estimate_cost_analysis_pass,
    estimate_hardware_analysis_pass,
    explain_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
    report_graph_analysis_pass,
    report_html_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
    report_synthesis_analysis_pass,
    sensitivity_analysis_pass,
    verify_common_metadata_analysis_pass,
    verify_quantization_analysis_pass,
)
from chop.passes.graph.analysis.explain import explain, explain_node
from chop.passes.graph.interface import (
    export_onnx_interface_pass,
    export_qonnx_interface_pass,
    export_safetensors_interface_pass,
    load_mase_graph_interface_pass,
    load_node_meta_param_interface_pass,
    save_mase_graph_interface_pass,
    save_node_meta_param_interface_pass,
)
from chop.passes.graph.transforms import (
    adaround_transform_pass,
    calibrate_transform_pass,
    clip_transform_pass,
    correct_bias_transform_pass,
    emit_testbench_transform_pass,
    emit_verilog_transform_pass,
    equalize_transform_pass,
    fold_batch_norm_transform_pass,
    gptq_transform_pass,
    prune_detach_transform_pass,
    prune_transform_pass,
    quantize_transform_pass,
    recover_accuracy_transform_pass,
    resolve_formats_transform_pass,
    rotate_transform_pass,
    smooth_transform_pass,
    summarize_quantization_analysis_pass,
)

__all__ = ["explain", "explain_node", *(name for name in dir() if name.endswith("_pass"))]
