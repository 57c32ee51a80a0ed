"""Methods that keep the accuracy of a model at low bit widths, without training."""

# mypy: implicit-reexport

from chop.passes.graph.transforms.low_bits.adaround import adaround_transform_pass
from chop.passes.graph.transforms.low_bits.clip import clip_transform_pass
from chop.passes.graph.transforms.low_bits.correct_bias import correct_bias_transform_pass
from chop.passes.graph.transforms.low_bits.equalize import equalize_transform_pass
from chop.passes.graph.transforms.low_bits.gptq import gptq_transform_pass
from chop.passes.graph.transforms.low_bits.recover_accuracy import recover_accuracy_transform_pass
from chop.passes.graph.transforms.low_bits.rotate import rotate_transform_pass
from chop.passes.graph.transforms.low_bits.smooth import smooth_transform_pass

__all__ = [name for name in dir() if name.endswith("_pass")]
