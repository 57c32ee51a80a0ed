"""Passes that measure or describe a graph without changing it."""

# mypy: implicit-reexport

from chop.passes.graph.analysis.compare_graphs import compare_graphs_analysis_pass
from chop.passes.graph.analysis.cost import (
    calculate_avg_bits_mg_analysis_pass,
    count_bitops_analysis_pass,
    count_flops_analysis_pass,
    estimate_cost_analysis_pass,
)
from chop.passes.graph.analysis.explain import explain_analysis_pass
from chop.passes.graph.analysis.hardware import (
    add_hardware_metadata_analysis_pass,
    cosimulate_analysis_pass,
    estimate_hardware_analysis_pass,
    report_synthesis_analysis_pass,
)
from chop.passes.graph.analysis.metadata import (
    add_common_metadata_analysis_pass,
    add_pruning_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    verify_common_metadata_analysis_pass,
)
from chop.passes.graph.analysis.profile_statistics import profile_statistics_analysis_pass
from chop.passes.graph.analysis.report import (
    report_graph_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
)
from chop.passes.graph.analysis.report_html import report_html_analysis_pass
from chop.passes.graph.analysis.sensitivity import sensitivity_analysis_pass
from chop.passes.graph.analysis.verify_quantization import verify_quantization_analysis_pass

__all__ = [name for name in dir() if name.endswith("_pass")]
