"""Passes that change the graph."""

# mypy: implicit-reexport

from chop.passes.graph.transforms.calibrate import calibrate_transform_pass
from chop.passes.graph.transforms.hardware import (
    emit_testbench_transform_pass,
    emit_verilog_transform_pass,
    fold_batch_norm_transform_pass,
    resolve_formats_transform_pass,
)
from chop.passes.graph.transforms.low_bits import (
    adaround_transform_pass,
    clip_transform_pass,
    correct_bias_transform_pass,
    equalize_transform_pass,
    gptq_transform_pass,
    recover_accuracy_transform_pass,
    rotate_transform_pass,
    smooth_transform_pass,
)
from chop.passes.graph.transforms.prune import prune_detach_transform_pass, prune_transform_pass
from chop.passes.graph.transforms.quantize import quantize_transform_pass, summarize_quantization_analysis_pass

__all__ = [name for name in dir() if name.endswith("_pass")]
