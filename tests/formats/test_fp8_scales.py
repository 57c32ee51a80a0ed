"""`fp8` with scales from data: per tensor, channel and row."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.formats.fp8 import FP8
from chop.nn.quantized import quantize_layer

pytestmark = pytest.mark.usefixtures("loops")


def test_the_largest_magnitude_becomes_the_largest_number() -> None:
    # The scale is 4.48 / 448 = 0.01; 0.333 / 0.01 = 33.3, between 32 and 36.
    y = FP8(scale="float").quantize(torch.tensor([4.48, -0.333, 0.0]))
    assert torch.allclose(y, torch.tensor([4.48, -0.32, 0.0]), atol=1e-6)


def test_each_row_has_its_own_scale() -> None:
    x = torch.tensor([[4.48, 0.333], [448.0, 33.3]])
    y = FP8(scale="float", granularity="row").quantize(x)
    assert torch.allclose(y, torch.tensor([[4.48, 0.32], [448.0, 32.0]]))


@pytest.mark.parametrize("element", ["e4m3", "e5m2"])
@pytest.mark.parametrize(("granularity", "dims"), [("tensor", (0, 1, 2)), ("row", (2,)), ("channel", (1, 2))])
def test_scaled_elements_agree_with_ml_dtypes(element: str, granularity: str, dims: tuple[int, ...]) -> None:
    dtype = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[element]
    x = torch.randn(4, 9, 33) * torch.logspace(-3, 3, 9).unsqueeze(-1)
    values = x.numpy()
    scale = np.abs(values).max(dims, keepdims=True) / np.float32(ml_dtypes.finfo(dtype).max)
    expected = (values / scale).astype(dtype).astype(np.float32) * scale
    number_format = FP8(element, scale="float", granularity=granularity).for_operand(-1, 0)  # type: ignore[arg-type]
    assert number_format.quantize(x).equal(torch.from_numpy(expected))
    assert number_format.decode(*number_format.encode(x)).equal(torch.from_numpy(expected))
    integers, unit = number_format.integers(x)
    assert (integers * unit).equal(torch.from_numpy(expected))


def test_a_calibrated_scale_is_used_as_given() -> None:
    number_format, scale = FP8(scale="float"), torch.tensor(0.5)
    assert number_format.scale_for(224.0) == 0.5
    x = torch.tensor([300.0, 8.7], requires_grad=True)
    y = number_format(x, scale)
    assert y.tolist() == [224.0, 9.0]  # 8.7 / 0.5 = 17.4 is between 16 and 18
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_layer_with_a_fixed_scale_has_integers() -> None:
    layer = quantize_layer(nn.Linear(8, 4), {"weight": FP8(scale="float")}, "FP8").eval()
    layer.fix_scale("weight", 0.003)
    integers, unit = layer.integers("weight")
    quantized = layer.quantized("weight")
    assert isinstance(quantized, Tensor)
    assert (integers * unit).equal(quantized)


def test_a_granularity_without_a_scale_is_an_error() -> None:
    with pytest.raises(ValueError, match="granularity 'row' needs scale = \"float\""):
        FP8(granularity="row")
