"""`integer` with scales from data: per tensor, channel or group, and learned."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from chop.formats.integer import Integer, Scale
from chop.formats.parts.granularity import Granularity
from chop.formats.parts.rounding import Rounding
from chop.nn.quantized import QuantConfig, quantize_layer
from chop.ops import OPS

Array = npt.NDArray[np.float64]
pytestmark = pytest.mark.usefixtures("loops")


def test_a_float_scale_maps_the_largest_magnitude_to_the_largest_integer() -> None:
    # the step is 12.7 / 127 = 0.1
    x = torch.tensor([12.7, -3.14, 0.04, 0.06])
    y = Integer(8, scale="float").quantize(x)
    assert torch.allclose(y, torch.tensor([12.7, -3.1, 0.0, 0.1]), atol=1e-6)


def test_each_channel_has_its_own_scale() -> None:
    x = torch.tensor([[1.0, 0.5], [127.0, 1.0]])
    by_tensor = Integer(8, scale="float").quantize(x)
    rows = Integer(8, scale="float", granularity="channel").for_operand(-1, 0).quantize(x)
    assert by_tensor.tolist() == [[1.0, 0.0], [127.0, 1.0]]  # 0.5 is a tie and becomes the even 0
    assert torch.allclose(rows, torch.tensor([[1.0, 64 / 127], [127.0, 1.0]]))


def test_groups_run_along_the_reduction_dimension() -> None:
    x = torch.tensor([[7.0, 3.4, 0.7, 0.34]])
    y = Integer(4, scale="float", granularity="group", group_size=2).for_operand(-1, 0).quantize(x)
    assert torch.allclose(y, torch.tensor([[7.0, 3.0, 0.7, 0.3]]))


def test_the_power_of_two_of_a_channel_is_the_smallest_that_fits() -> None:
    # 100 / 127 -> 1; 64 / 127 = 0.504 -> 1; 63 / 127 = 0.496 -> 0.5
    x = torch.tensor([[100.0, 0.6], [64.0, 0.6], [63.0, 0.6]])
    y = Integer(8, granularity="channel").for_operand(-1, 0).quantize(x)
    assert y.tolist() == [[100.0, 1.0], [64.0, 1.0], [63.0, 0.5]]


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["tensor", "channel", "row", "group"])
@pytest.mark.parametrize("scale", ["power_of_two", "float"])
def test_decoding_gives_the_quantised_values(granularity: str, scale: str) -> None:
    number_format = Integer(8, scale=scale, granularity=granularity, group_size=3).for_operand(-1, 0)  # type: ignore[arg-type]
    x = torch.randn(4, 7)
    codes, scales = number_format.encode(x)
    assert codes.abs().max() <= 128
    assert number_format.decode(codes, scales).equal(number_format.quantize(x))
    assert number_format.contains(number_format.quantize(x)).all()


def test_a_zero_tensor_stays_zero() -> None:
    granularities: tuple[Granularity, ...] = ("tensor", "channel", "row", "group")
    for granularity in granularities:
        number_format = Integer(8, scale="float", granularity=granularity).for_operand(-1, 0)
        assert number_format.quantize(torch.zeros(3, 4)).equal(torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("largest", "expected"), [(1.0, 6), (0.99, 7), (7.9, 4), (1000.0, -3), (1e-3, 16), (0.0, 8)]
)
def test_fraction_bits_are_fitted_to_the_largest_value(largest: float, expected: int) -> None:
    fitted = Integer(8, "auto").fitted(largest)
    assert fitted.frac_width == expected
    if largest:
        assert 127 / 2.0**expected >= largest > 127 / 2.0 ** (expected + 1)


def test_learned_steps_have_the_gradient_of_the_paper() -> None:
    # LSQ: inside, d/ds = round(v) - v; outside, the bound; scaled by 1 / sqrt(n * Qp)
    x = torch.tensor([0.3, 0.9, 100.0, -100.0], requires_grad=True)
    step = torch.tensor(0.5, requires_grad=True)
    y = Integer(4, scale="learned")(x, step)
    assert y.tolist() == [0.5, 1.0, 3.5, -4.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 0.0, 0.0]
    expected = ((1 - 0.6) + (2 - 1.8) + 7 - 8) / math.sqrt(4 * 7)
    assert step.grad is not None
    assert step.grad.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_a_learned_scale_is_a_trained_parameter_of_the_layer() -> None:
    plain, learned = nn.Linear(16, 4), Integer(3, scale="learned")
    layer = quantize_layer(plain, {"weight": learned, "data_in_0": learned}, "Integer")
    assert sorted(layer.state_dict()) == ["bias", "data_in_scale", "weight", "weight_scale"]
    assert sorted(plain.state_dict()) == ["bias", "weight"]
    start = layer.get_parameter("weight_scale").item()
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    x, y = torch.randn(64, 16), torch.randn(64, 4)
    losses = []
    for _ in range(50):
        loss = nn.functional.mse_loss(layer(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert layer.get_parameter("weight_scale").item() != start
    integers, scale = layer.integers("weight")
    quantized = layer.quantized("weight")
    assert quantized is not None
    assert torch.allclose(integers * scale, quantized)
    assert integers.min() >= -4
    assert integers.max() <= 3
    layer.get_parameter("weight_scale").data.neg_()
    layer.forget()
    assert layer.integers("weight")[0].equal(integers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("granularity", ["tensor", "channel", "row", "group"])
def test_codes_of_other_dtypes(granularity: Granularity, dtype: torch.dtype) -> None:
    number_format = Integer(8, scale="float", granularity=granularity, group_size=5).for_operand(-1, 0)
    x = torch.randn(4, 16, dtype=dtype)
    codes, scales = number_format.encode(x)
    assert number_format.decode(codes, scales).to(dtype).equal(number_format.quantize(x))
    integers, scale = number_format.integers(x)
    assert (integers * scale).to(dtype).equal(number_format.quantize(x))
    if granularity == "group":
        assert scales[0].numel() == 4 * 4  # 16 elements in groups of five, the last one short


def test_codes_fit_their_width() -> None:
    codes, _ = Integer(16, 8).encode(torch.tensor([200.0, -200.0], dtype=torch.bfloat16))
    assert codes.tolist() == [32767, -32768]


def test_unsigned_steps_cover_only_positive_values() -> None:
    # The step is 1 / 255, and 0.25 is 63.75 steps.
    y = Integer(8, is_signed=False, scale="float").quantize(torch.tensor([-100.0, 1.0, 0.25]))
    assert torch.allclose(y, torch.tensor([0.0, 1.0, 64 / 255]))


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["floor", "towards_zero", "stochastic"])
@pytest.mark.parametrize("is_signed", [True, False])
def test_directed_rounding_keeps_the_largest_value(rounding: Rounding, is_signed: bool) -> None:
    # 12.7 / 127 * 127 and 12.7 differ by one ulp, which is not a step.
    number_format = Integer(8, is_signed=is_signed, scale="float", rounding=rounding)
    for largest in torch.rand(200) * 100:
        y = number_format.quantize(torch.stack([largest, torch.zeros(())]))
        assert torch.isclose(y[0], largest)
        assert number_format.contains(y).all()


@pytest.mark.parametrize("granularity", ["tensor", "channel", "row", "group"])
@pytest.mark.parametrize("scale", ["power_of_two", "float"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_largest_numbers_stay_finite(granularity: Granularity, scale: Scale, dtype: torch.dtype) -> None:
    top = torch.finfo(dtype).max
    for width in (1, 2, 8, 16, 32):
        number_format = Integer(width, -12, scale=scale, granularity=granularity).for_operand(-1, 0)
        y = number_format.quantize(torch.tensor([[top, -top, 1.0], [torch.inf, -torch.inf, 0.0]], dtype=dtype))
        assert y.isfinite().all()
        assert number_format.contains(y).all()


def test_bits_include_the_scales_of_groups() -> None:
    assert Integer(4, scale="float", granularity="group", group_size=32).bits == 5.0
    assert Integer(4, granularity="group", group_size=16).bits == 4.5
    assert Integer(4, scale="float", granularity="channel").bits == 4.0


def test_a_negative_learned_step_is_used_by_its_magnitude() -> None:
    x = torch.tensor([9.0, -9.0, 0.3, 0.0])
    number_format, gradients = Integer(4, scale="learned"), []
    for start in (0.5, -0.5):
        step = torch.tensor(start, requires_grad=True)
        y = number_format(x, step)
        assert y.detach().equal(number_format.quantize(x, torch.tensor(0.5)))
        assert number_format.quantize(x, step.detach()).equal(y.detach())
        y.square().sum().backward()
        assert step.grad is not None
        gradients.append(step.grad.item())
    assert gradients[0] == pytest.approx(-gradients[1])
    assert number_format.quantize(x, torch.tensor(0.0)).isfinite().all()


def test_rows_and_groups_have_no_learned_scale() -> None:
    with pytest.raises(ValueError, match="a learned scale needs granularity 'tensor' or 'channel', got 'group'"):
        Integer(4, scale="learned", granularity="group")


def _lsq(x: Array, step: float, low: int, high: int, gradient: Array, n: int) -> tuple[Array, float]:
    """Return the gradients of LSQ, element by element: equation 3 of the paper, scaled as in section 2.2."""
    to_x = np.zeros_like(x)
    to_step = 0.0
    for i, v in np.ndenumerate(x):
        quotient = v / step
        if quotient <= low:
            slope = float(low)
        elif quotient >= high:
            slope = float(high)
        else:
            slope = float(np.rint(quotient) - quotient)
            to_x[i] = gradient[i]
        to_step += float(gradient[i]) * slope
    return to_x, to_step / math.sqrt(n * high)


@pytest.mark.parametrize("scale", ["learned", "learned_power_of_two"])
def test_each_channel_has_the_gradient_of_the_paper(scale: Scale) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 2, 5, dtype=torch.float64, generator=generator).mul_(2).requires_grad_()
    gradient = torch.randn(3, 2, 5, dtype=torch.float64, generator=generator)
    steps = torch.tensor([0.5, -0.3, 2.1], dtype=torch.float64).reshape(3, 1, 1).requires_grad_()
    used = [0.5, 0.3, 2.1] if scale == "learned" else [0.5, 0.25, 2.0]
    (Integer(3, scale=scale, granularity="channel", channel_dim=0)(x, steps) * gradient).sum().backward()
    assert x.grad is not None
    assert steps.grad is not None
    for channel, sign in enumerate((1, -1, 1)):
        given = x.detach()[channel].numpy(), used[channel], -4, 3, gradient[channel].numpy()
        to_x, to_step = _lsq(*given, n=10)  # 10 elements share a step
        assert np.allclose(x.grad[channel], to_x, rtol=1e-12)
        assert steps.grad[channel].item() == pytest.approx(sign * to_step, rel=1e-12)


def test_the_gradient_of_an_activations_step_counts_features_without_the_batch() -> None:
    layer = quantize_layer(nn.Linear(5, 4), {"data_in_0": Integer(3, scale="learned")}, "Integer").double()
    layer.fix_scale("data_in_0", 0.5)
    x = torch.randn(7, 5, dtype=torch.float64)
    gradient = torch.randn(7, 4, dtype=torch.float64)
    (layer(x) * gradient).sum().backward()
    _, expected = _lsq(x.numpy(), 0.5, -4, 3, (gradient @ layer.get_parameter("weight")).detach().numpy(), n=5)
    found = layer.get_parameter("data_in_scale").grad
    assert found is not None
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_the_first_step_has_the_least_squared_error() -> None:
    # 9,000 values of 1 and one of 100: with 4 bits, a step near 1 loses one value instead of 9,000.
    x = torch.cat([torch.ones(2, 9000), torch.full((2, 1), 100.0)], dim=1)
    number_format = Integer(4, scale="learned", granularity="channel").for_operand(-1, 0)
    start = number_format.initial_scale(x * torch.tensor([[1.0], [1000.0]]))
    assert start.shape == (2, 1)
    assert start[1] == pytest.approx(1000 * start[0].item())
    values = x[0].double().numpy()
    steps = 100 / 7 * 2 ** -(np.arange(0, 6, 0.01))
    errors = [np.square(np.clip(np.round(values / step), -8, 7) * step - values).sum() for step in steps]
    found = np.square(number_format.quantize(x[:1], start[0])[0].double().numpy() - values).sum()
    assert min(errors) <= found <= 1.02 * min(errors)  # four steps per octave are tried


def test_a_learned_power_of_two_is_the_nearest_by_its_logarithm() -> None:
    number_format = Integer(4, scale="learned_power_of_two")
    assert number_format.step_of(torch.tensor([0.7, 0.72, -1.4, 1.42, 3.0])).tolist() == [0.5, 1.0, 1.0, 2.0, 4.0]
    x = torch.tensor([0.9, 30.0])
    assert number_format.quantize(x, torch.tensor(0.3)).tolist() == [1.0, 1.75]


def test_stochastic_rounding_of_parameters() -> None:
    parameter = nn.Parameter(torch.full((1000,), 0.3))
    y = Integer(8, 0, rounding="stochastic")(parameter)
    assert 0.2 < y.detach().mean().item() < 0.4
    y.sum().backward()
    assert parameter.grad is not None


def test_one_signed_bit_is_fitted() -> None:
    fitted = Integer(width=1, frac_width="auto").fitted(0.5)
    assert fitted.frac_width == 1  # 0 and -0.5
    assert fitted.quantize(torch.tensor([-0.5, 0.0, 0.5])).tolist() == [-0.5, 0.0, 0.0]


def test_each_row_has_its_own_scale() -> None:
    # Rows of the last dimension, such as tokens: steps 12.7 / 127 = 0.1 and 1.27 / 127 = 0.01.
    x = torch.tensor([[[12.7, -3.14], [1.27, 0.314]]])
    y = Integer(8, scale="float", granularity="row").quantize(x)
    assert torch.allclose(y, torch.tensor([[[12.7, -3.1], [1.27, 0.31]]]), atol=1e-6)
    codes, (steps,) = Integer(8, scale="float", granularity="row").encode(x)
    assert codes.tolist() == [[[127, -31], [127, 31]]]
    assert steps.shape == (1, 2, 1)


def test_rows_agree_with_symmetric_int8_per_token() -> None:
    # The usual definition: s = max|x| / 127 per token, q = clamp(round(x / s), -128, 127).
    x = torch.randn(4, 9, 33) * torch.logspace(-3, 3, 9).unsqueeze(-1)
    s = np.abs(x.numpy()).max(-1, keepdims=True) / np.float32(127)
    expected = np.clip(np.rint(x.numpy() / s), -128, 127) * s
    y = Integer(8, scale="float", granularity="row").quantize(x)
    assert y.equal(torch.from_numpy(expected))
    for token in range(9):  # each is rounded as a tensor of its own
        assert y[2, token].equal(Integer(8, scale="float").quantize(x[2, token]))


def test_a_config_gives_tokens_and_channels_their_own_scales() -> None:
    config = QuantConfig.read(
        {
            "name": "integer",
            "data_in_scale": "float",
            "data_in_granularity": "row",
            "weight_granularity": "channel",
            "bias_name": "float",
        },
        "here",
    )
    assert config is not None
    op = OPS["linear"]
    formats = config.for_op(op, {operand.name: operand for operand in op.operands})
    plain, x = nn.Linear(16, 4), torch.randn(3, 5, 16)
    layer = quantize_layer(plain, formats, "Integer")

    def rounded(values: torch.Tensor) -> torch.Tensor:
        step = values.abs().amax(-1, keepdim=True) / 127
        return (values / step).round() * step

    expected = nn.functional.linear(rounded(x), rounded(plain.weight), plain.bias)
    assert torch.allclose(layer.eval()(x), expected, atol=1e-6)
    integers, scale = layer.integers("weight")
    assert scale.shape == (4, 1)
    assert integers.abs().amax(1).tolist() == [127] * 4
