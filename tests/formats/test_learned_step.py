"""Derivatives of learned steps, against numbers worked out by hand, under the transforms of torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from chop.formats.integer import Integer
from chop.formats.parts.gradients import step_of_activation

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")

FORMAT = Integer(3, scale="learned")
X, STEP = torch.tensor([0.3, 5.0, -9.0]), torch.tensor(1.0)
# From -4 to 3: 0.3 is rounded down by 0.3, the others saturate. The share of LSQ is 1 / sqrt(3 values * 3).
BY_X = torch.tensor([1.0, 0.0, 0.0])
BY_STEP = torch.tensor([-0.3, 3.0, -4.0]) / 3


@pytest.mark.parametrize("of_x", [0.0, 2.0])
@pytest.mark.parametrize("of_step", [0.0, 5.0])
def test_forward_mode_derivatives(of_x: float, of_step: float) -> None:
    tangents = torch.full((3,), of_x), torch.tensor(of_step)
    y, found, *_ = jvp(FORMAT, (X, STEP), tangents)
    assert y.tolist() == [0.0, 3.0, -4.0]
    torch.testing.assert_close(found, of_x * BY_X + of_step * BY_STEP)
    with torch.no_grad(), forward_ad.dual_level():
        step = forward_ad.make_dual(STEP, tangents[1])
        found = forward_ad.unpack_dual(FORMAT(X, step)).tangent
        assert found is not None
        torch.testing.assert_close(found, of_step * BY_STEP)


def test_reverse_mode_derivatives() -> None:
    v = torch.tensor([1.0, 2.0, 3.0])
    expected = (BY_X * v, (BY_STEP * v).sum())
    leaves = [X.clone().requires_grad_(), STEP.clone().requires_grad_()]
    kept = checkpoint(FORMAT, *leaves, use_reentrant=False)
    for found in (
        vjp(FORMAT, X, STEP)[1](v),
        grad(lambda x, step: (FORMAT(x, step) * v).sum(), argnums=(0, 1))(X, STEP),
        torch.autograd.grad(FORMAT(*leaves), leaves, v),
        torch.autograd.grad(kept, leaves, v),
    ):
        torch.testing.assert_close(found, expected)


def test_derivatives_of_derivatives_take_the_slopes_as_constants() -> None:
    def squares(x: Tensor, step: Tensor) -> Tensor:
        return FORMAT(x, step).square().sum()

    leaves = [X.clone().requires_grad_(), STEP.clone().requires_grad_()]
    first = torch.autograd.grad(squares(*leaves), leaves, create_graph=True)
    found = torch.autograd.grad(first[1], leaves)
    torch.testing.assert_close(found, (2 * BY_STEP * BY_X, 2 * BY_STEP.square().sum()))
    by_step = jvp(lambda step: grad(squares, argnums=1)(X, step), (STEP,), (torch.ones(()),))[1]
    torch.testing.assert_close(by_step, found[1], check_dtype=False)


@pytest.mark.parametrize("scale", ["learned", "learned_power_of_two"])
@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_samples_under_vmap_are_those_of_a_loop(scale: Any, granularity: Any) -> None:
    number_format = Integer(4, scale=scale, granularity=granularity, channel_dim=0)
    x = torch.randn(3, 2, 5)
    steps = torch.rand(3, 2, 1) if granularity == "channel" else torch.rand(3)

    def squares(x: Tensor, step: Tensor) -> Tensor:
        return number_format(x, step).square().sum()

    found = vmap(grad(squares, argnums=(0, 1)))(x, steps)
    for i in range(3):
        leaves = [x[i].clone().requires_grad_(), steps[i].clone().requires_grad_()]
        expected = torch.autograd.grad(squares(*leaves), leaves)
        torch.testing.assert_close((found[0][i], found[1][i]), expected)
    shared = vmap(lambda x: number_format(x, steps[0]))(x)
    assert shared.equal(torch.stack([number_format(each, steps[0]) for each in x]))


def test_the_step_of_activations_keeps_its_value_and_has_a_larger_derivative() -> None:
    x, step = torch.randn(16, 3), torch.tensor(0.1, requires_grad=True)
    scaled = step_of_activation(step, x)
    assert scaled.equal(step)
    assert torch.autograd.grad(scaled, step)[0] == 4
    assert jvp(lambda step: step_of_activation(step, x), (STEP,), (torch.ones(()),))[1] == 4
