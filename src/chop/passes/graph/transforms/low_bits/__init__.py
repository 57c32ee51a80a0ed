"""Methods that keep the accuracy of a model at low bit widths, without training."""

from chop.passes.graph.transforms.low_bits.adaround import adaround_transform_pass
from chop.passes.graph.transforms.low_bits.clip import clip_transform_pass
from chop.passes.graph.transforms.low_bits.correct_bias import correct_bias_transform_pass
from chop.passes.graph.transforms.low_bits.equalize import equalize_transform_pass
from chop.passes.graph.transforms.low_bits.gptq import gptq_transform_pass
from chop.passes.graph.transforms.low_bits.recover_accuracy import recover_accuracy_transform_pass
from chop.passes.graph.transforms.low_bits.rotate import rotate_transform_pass
from chop.passes.graph.transforms.low_bits.smooth import smooth_transform_pass

__all__ = [
    "adaround_transform_pass",
    "clip_transform_pass",
    "correct_bias_transform_pass",
    "equalize_transform_pass",
    "gptq_transform_pass",
    "recover_accuracy_transform_pass",
    "rotate_transform_pass",
    "smooth_transform_pass",
]
