"""The weight of a layer as matrices, and its input as the rows that they are multiplied by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module

MATRIX_OPS = ("linear", "linear_transposed", "conv1d", "conv2d")
"""The ops whose results are sums of products of a weight with one input each."""
_MAX_ELEMENTS = 2**24
"""Elements of unfolded inputs that are in memory at a time."""


def weight_of(layer: Any) -> Tensor:
    """Return the weight of a layer without its gradient."""
    weight: Tensor = layer.weight.detach()
    return weight


def op_name(layer: nn.Module) -> str:
    """Return the name of a layer's op; empty if it is not in the op table."""
    op = op_of_module(layer.base_class if isinstance(layer, QuantizedLayer) else type(layer))
    return "" if op is None else op.name


def num_groups(layer: nn.Module) -> int:
    """Return the groups of a convolution; 1 for a linear layer."""
    return int(getattr(layer, "groups", 1))


def to_matrices(layer: nn.Module, weight: Tensor) -> Tensor:
    """Return a weight, or a tensor of its shape, as [groups, outputs, inputs]."""
    if op_name(layer) == "linear_transposed":
        weight = weight.t()
    return weight.reshape(num_groups(layer), weight.shape[0] // num_groups(layer), -1)


def from_matrices(layer: nn.Module, matrices: Tensor) -> Tensor:
    """Return matrices in the shape of the layer's weight."""
    weight: Any = layer.weight
    if op_name(layer) == "linear_transposed":
        return matrices[0].t().contiguous()
    return matrices.reshape(weight.shape)


def input_rows(layer: Any, x: Tensor, mask: Tensor | None = None) -> Iterator[Tensor]:
    """Yield the input of a layer as [groups, rows, inputs], in slices of bounded size, without padded tokens."""
    if op_name(layer).startswith("linear"):
        if mask is not None and x.shape[:-1] == mask.shape:
            x = x[mask.bool()]
        for part in x.reshape(-1, x.shape[-1]).split(max(1, _MAX_ELEMENTS // x.shape[-1])):
            yield part.unsqueeze(0)
        return
    images = _padded_images(layer, x)  # those of sequences have height 1
    kernel = layer.kernel_size
    unfolded = images[0].numel() * math.prod(kernel)
    values = {"kernel_size": kernel, "stride": layer.stride, "dilation": layer.dilation}
    window = {name: tuple(value) if len(value) == 2 else (1, *value) for name, value in values.items()}
    for part in images.split(max(1, _MAX_ELEMENTS // unfolded)):
        patches = F.unfold(part, **window).transpose(1, 2).flatten(0, 1)
        yield patches.reshape(len(patches), num_groups(layer), -1).transpose(0, 1)


def _padded_images(layer: Any, x: Tensor) -> Tensor:
    """Return the input of a convolution as a batch of images with its padding."""
    dims = len(layer.kernel_size)
    x = x if x.dim() == dims + 2 else x.unsqueeze(0)
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    x = F.pad(x, layer._reversed_padding_repeated_twice, mode=mode)
    return x if dims == 2 else x.unsqueeze(2)
