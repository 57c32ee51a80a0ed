"""Compiled loops: the same bits as the eager definitions, and where the eager definitions run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from chop.formats import FORMATS, Format
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.kernels import run
from chop.formats.kernels.compiler import is_available
from chop.formats.log import Log
from chop.formats.microscaling import MXFP, MXInt
from chop.formats.mixed_integer import MixedInteger
from chop.formats.parts.rounding import Rounded, Rounding
from chop.formats.ternary import Ternary
from formats.references import hard_numbers

pytestmark = pytest.mark.skipif(not is_available(), reason="needs the package numba")

SCALED = [
    Integer(8, scale="float"),
    Integer(4, scale="float", granularity="channel", channel_dim=0),
    Integer(8, scale="float", granularity="row"),
    Integer(4, scale="float", granularity="group", group_size=24),
    Integer(8, granularity="row"),
    FP8(scale="float", granularity="row"),
    FP8("e5m2", scale="float"),
]
MIXED = [
    MixedInteger.of(torch.tensor([[8], [0], [3], [24]]), torch.tensor([[4], [2], [-3], [90]])),
    MixedInteger.of(torch.arange(96) % 9, torch.arange(96) % 7 - 2, is_signed=False),
]
WITH_LOOPS = [FORMATS[name]() for name in FORMATS if name != "float"] + SCALED
ROUNDINGS: tuple[Rounding, ...] = ("nearest_even", "nearest_away", "floor", "towards_zero")


def with_every_rounding(number_format: Any) -> list[Any]:
    """Return the format with each rounding, or alone if it has none to choose."""
    if not isinstance(number_format, Rounded):
        return [number_format]
    return [replace(number_format, rounding=each) for each in ROUNDINGS]


@pytest.fixture(autouse=True)
def loops_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.settings, "min_numel_to_load", 0)


def eager(number_format: Format, x: Tensor) -> Tensor:
    with patch.object(run.settings, "enabled", False):
        return number_format.quantize(x)


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether all bits agree, except those of NaN."""
    nan = left.isnan() & right.isnan()
    return bool(((left.view(torch.int32) == right.view(torch.int32)) | nan).all())


@pytest.fixture
def used() -> Iterator[list[object]]:
    """The loops that are found."""
    found: list[object] = []
    original = run.find_loop

    def find_loop(x: Tensor, *name: str) -> object:
        found.append(original(x, *name))
        return found[-1]

    with patch("chop.formats.kernels.families.find_loop", find_loop):
        yield found


@pytest.mark.parametrize(
    "number_format",
    [each for one in WITH_LOOPS for each in with_every_rounding(one)],
    ids=lambda each: f"{getattr(each, 'rounding', '')}-{each}",
)
def test_every_bit_is_that_of_the_eager_definition(number_format: Format) -> None:
    numbers = hard_numbers()
    numbers = torch.cat([numbers, torch.tensor([torch.nan, torch.inf, -torch.inf])])
    x = numbers[: len(numbers) // 40 * 40].reshape(-1, 40)
    whole_blocks = numbers[: len(numbers) // 64 * 64].reshape(-1, 64)
    ordinary = torch.randn(64, 96).mul_(torch.randn(64, 1).mul(3).exp())
    for each in (
        x,
        whole_blocks,
        ordinary,
        ordinary[:, :33].contiguous(),
        ordinary[:, ::2],
        ordinary.t(),
        ordinary[0],
    ):
        assert same_bits(number_format.quantize(each).contiguous(), eager(number_format, each).contiguous())


def test_where_torch_flushes_subnormal_numbers_the_eager_definitions_run(used: list[object]) -> None:
    x = torch.randn(7, 64) * 2.0 ** torch.tensor([[0], [-20], [-110], [-126], [-130], [-140], [-148]])
    assert torch.set_flush_denormal(True)
    try:
        for number_format in WITH_LOOPS:
            found, expected = number_format.quantize(x), eager(number_format, x)
            torch.set_flush_denormal(False)
            assert same_bits(found, expected)
            torch.set_flush_denormal(True)
        assert not any(used)
    finally:
        torch.set_flush_denormal(False)
    Integer().quantize(x)
    assert used[-1] is not None


@pytest.mark.parametrize("name", ["binary", "ternary", "nvfp4"])
@pytest.mark.parametrize("special", [[], [torch.nan], [torch.inf], [-torch.inf, torch.nan], [1e-40], [3e38, 3e38]])
def test_values_that_are_not_finite_anywhere_in_a_tensor(name: str, special: list[float]) -> None:
    number_format = FORMATS[name]()
    for position in (0, 1500, 4999 - len(special)):
        x = torch.randn(5000)
        x[position : position + len(special)] = torch.tensor(special)
        assert same_bits(number_format.quantize(x), eager(number_format, x))


@pytest.mark.parametrize(
    "number_format",
    [FORMATS["binary"](), Ternary(), Ternary(False, 1 / 3), Ternary(True, 1e-40), Ternary(True, torch.inf)],
    ids=str,
)
@pytest.mark.parametrize("largest", [0.0, 1e-44, 1e-30, 1e-10, 1.0, 3e38])
@pytest.mark.parametrize("numel", [1, 1000, 5000])
def test_means_of_small_and_large_numbers(number_format: Format, largest: float, numel: int) -> None:
    x = torch.rand(numel).mul_(2).sub_(1).mul_(largest)
    assert same_bits(number_format.quantize(x), eager(number_format, x))


@pytest.mark.parametrize("number_format", WITH_LOOPS, ids=str)
def test_default_parameters_use_a_loop(number_format: Format, used: list[object]) -> None:
    number_format.quantize(torch.randn(4, 96))
    assert used
    assert used[-1] is not None


@pytest.mark.parametrize("number_format", MIXED, ids=["channels", "columns"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_every_channel_or_element_has_its_own_width(
    number_format: MixedInteger, rounding: Rounding, used: list[object]
) -> None:
    mixed = replace(number_format, rounding=rounding)
    numbers = torch.cat([hard_numbers(), torch.tensor([torch.nan, torch.inf, -torch.inf] * 100)])
    x = numbers[-(len(numbers) // 384 * 384) :].reshape(-1, 4, 96)
    for each in (x, x.transpose(0, 1).contiguous().transpose(0, 1), x[0]):
        left, right = mixed.quantize(each), eager(mixed, each)
        # The sign of 0 is left open: that of `clamp` with tensors depends on the place of a number.
        assert bool(((left == right) | (left.isnan() & right.isnan())).all())
    assert used[0] is not None


@pytest.mark.parametrize("number_format", [MXInt(block_dim=1), MXFP(block_dim=1)], ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_blocks_along_the_channels_of_images(
    number_format: Format, layout: torch.memory_format, used: list[object]
) -> None:
    x = torch.randn(2, 40, 5, 7).to(memory_format=layout)
    y = number_format.quantize(x)
    assert used[-1] is not None
    assert y.equal(eager(number_format, x))


def test_a_given_scale() -> None:
    x, scale = torch.randn(30, 50) * 20, torch.tensor(0.037)
    for number_format in (Integer(4, scale="float"), Integer(8, scale="learned"), FP8(scale="float")):
        with patch.object(run.settings, "enabled", False):
            expected = number_format.quantize(x, scale)
        assert number_format.quantize(x, scale).equal(expected)


@pytest.mark.slow
def test_several_threads_give_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.settings, "min_numel_per_thread", 100)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for number_format in WITH_LOOPS:
            for x in (torch.randn(7, 96), torch.randn(1000), torch.randn(2, 40, 5, 7)):
                assert number_format.quantize(x).equal(eager(number_format, x))
        child = os.fork()  # threads do not survive it
        if child == 0:
            x = torch.randn(1000)
            os._exit(0 if Log().quantize(x).equal(eager(Log(), x)) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    "number_format", [Integer(), MXInt(), FORMATS["nvfp4"](), FORMATS["ternary"](), MIXED[1]], ids=str
)
def test_the_result_is_all_that_is_allocated(number_format: Format) -> None:
    x = torch.randn(64, 96)
    number_format.quantize(x)
    with torch.profiler.profile(profile_memory=True) as profile:
        number_format.quantize(x)
    events: Any = profile.profiler.kineto_results.events()
    assert sum(max(e.nbytes(), 0) for e in events if e.name() == "[memory]") == x.nbytes


def test_as_many_threads_as_torch_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.settings, "min_numel_per_thread", 100)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    ranges: list[tuple[int, int]] = []
    run.in_threads(lambda begin, end: ranges.append((begin, end)), 1000, 1000)
    assert sorted(ranges) == [(0, 333), (333, 666), (666, 1000)]
    run.in_threads(lambda begin, end: ranges.append((begin, end)), 150, 150)
    assert ranges[3:] == [(0, 150)]


def test_many_small_tensors_load_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.settings, "min_numel_to_load", 2**16)
    monkeypatch.setattr(run.settings, "min_total_to_load", 3 * 2**10)
    monkeypatch.setattr(run, "_loops", {})
    monkeypatch.setattr(run, "_missed", {})
    for _ in range(2):
        assert run.find_loop(torch.randn(8), "maximum", "magnitude") is None
    assert run.find_loop(torch.randn(8), "maximum", "magnitude") is not None


@pytest.mark.parametrize("numel", [96, 2**16])  # a small tensor, and one with a function in Python
def test_the_gradient_is_passed_on(numel: int) -> None:
    x = torch.randn(1, numel, requires_grad=True)
    y = Integer()(x)
    assert y.equal(eager(Integer(), x.detach()))
    y.square().sum().backward()
    assert x.grad is not None
    assert x.grad.equal(2 * y.detach())


def fixed_point(x: Tensor) -> Tensor:
    return Integer().quantize(x)


def compiled(x: Tensor) -> Tensor:
    function: Callable[[Tensor], Tensor] = torch.compile(fixed_point, backend="eager", fullgraph=True)
    return function(x)


def traced(x: Tensor) -> Tensor:
    y: Tensor = torch.jit.trace(fixed_point, torch.zeros(6, 40))(x)
    return y


def in_double_backward(x: Tensor) -> Tensor:
    y = Integer()(x.requires_grad_())
    (first,) = torch.autograd.grad(y.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.equal(6 * y)
    return y.detach()


EAGER_CALLS: dict[str, Callable[[Tensor], Tensor]] = {
    "a tensor with a gradient": lambda x: fixed_point(x.requires_grad_()).detach(),
    "vmap": lambda x: torch.vmap(fixed_point)(x),
    "make_fx": lambda x: make_fx(fixed_point)(torch.zeros(6, 40))(x),
    "torch.compile": compiled,
    "torch.jit.trace": traced,
    "double backward": in_double_backward,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EAGER_CALLS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_transformations_of_torch_see_the_eager_definition(name: str) -> None:
    x = torch.randn(6, 40)
    assert EAGER_CALLS[name](x.clone()).equal(eager(Integer(), x))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_use_the_eager_definition(dtype: torch.dtype, used: list[object]) -> None:
    for number_format in WITH_LOOPS:
        number_format.quantize(torch.randn(2, 32, dtype=dtype))
    assert not any(used)


@pytest.mark.parametrize("values", [[torch.inf], [-torch.inf, 3.4028234663852886e38], [torch.inf, 1.0, torch.nan]])
@pytest.mark.parametrize("scaling", [False, True])
def test_infinities_count_as_the_largest_number(values: list[float], scaling: bool) -> None:
    number_format, x = Ternary(scaling=scaling, threshold=1.0), torch.tensor(values)
    assert same_bits(number_format.quantize(x), eager(number_format, x))


def test_tensors_without_memory() -> None:
    assert FP8().quantize(torch.empty(6, 40, device="meta")).shape == (6, 40)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.randn(6, 40))
        assert FP8().quantize(fake).shape == (6, 40)
    parameter = nn.Parameter(torch.randn(6, 40))
    with torch.no_grad():
        assert FP8().quantize(parameter).equal(eager(FP8(), parameter))
