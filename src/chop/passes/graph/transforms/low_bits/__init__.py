"""Methods that keep the accuracy of a model at low bit widths, without training."""

from chop.passes.graph.transforms.low_bits.gptq import gptq_transform_pass

__all__ = ["gptq_transform_pass"]
