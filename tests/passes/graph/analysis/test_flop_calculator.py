"""Operations of a single layer, with the import path of the course notes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from chop.formats.integer import Integer
from chop.nn.quantized import quantize_layer
from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules


@pytest.mark.parametrize(
    ("layer", "shape", "parameters", "computations"),
    [
        (nn.Linear(16, 5), (8, 16), 85, 640),
        (nn.BatchNorm1d(16), (8, 16), 32, 512),
        (nn.BatchNorm1d(16, affine=False), (8, 16), 0, 256),
        (nn.ReLU(), (8, 16), 0, 128),
        (nn.Conv2d(4, 8, 3, groups=2), (2, 4, 8, 8), 8 * 18 + 8, 2 * 8 * 36 * 18),
        (nn.MaxPool2d(2), (2, 3, 8, 8), 0, 4 * 96),
        (nn.Dropout(), (8, 16), 0, 0),
        (nn.Flatten(), (8, 16), 0, 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_parameters_and_computations(
    layer: nn.Module, shape: tuple[int, ...], parameters: int, computations: int
) -> None:
    x = torch.randn(shape)
    y = layer(x)
    found = calculate_modules(module=layer, in_data=[x], out_data=[y])
    assert found == {
        "total_parameters": parameters,
        "computations": computations,
        "input_buffer_size": x.numel(),
        "output_buffer_size": y.numel(),
    }


def test_a_quantised_layer_counts_as_its_original() -> None:
    layer = quantize_layer(nn.Linear(16, 5), {"data_in_0": Integer(8, 4)}, "Integer")
    x = torch.randn(8, 16)
    found = calculate_modules(layer, (x,), (layer(x),))
    assert (found["total_parameters"], found["computations"]) == (85, 640)


def test_an_unknown_layer_is_an_error() -> None:
    x = torch.randn(8, 16)
    with pytest.raises(ValueError, match="the operations of SyncBatchNorm are unknown"):
        calculate_modules(nn.SyncBatchNorm(2), [x], [x])
    with pytest.raises(ValueError, match="the operations of this MSELoss are unknown"):
        calculate_modules(nn.MSELoss(), [x], [x])
    with pytest.raises(ValueError, match="the operations of Sequential are unknown"):
        calculate_modules(nn.Sequential(nn.ReLU()), [x], [x])


@pytest.mark.parametrize("wrong", [None, [None], [], torch.ones(1)])
def test_data_must_be_lists_of_tensors(wrong: Any) -> None:
    with pytest.raises(ValueError, match="in_data must be a list of tensors"):
        calculate_modules(nn.ReLU(), wrong, [torch.ones(1)])
