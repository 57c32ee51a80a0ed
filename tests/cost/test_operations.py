"""Operations of single nodes, computed by hand and against torch's own counter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from chop.cost import count, flops, operations
from chop.ir import MaseGraph, NodeMeta
from chop.ops import Count, Factors
from chop.ops.base import INNER
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass


class Apply(nn.Module):
    """A function of up to three tensors as a model."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function


class Apply1(Apply):
    def forward(self, a: Tensor) -> Tensor:
        return self.function(a)


class Apply2(Apply):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return self.function(a, b)


class Apply3(Apply):
    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return self.function(a, b, c)


def annotated(model: nn.Module, *inputs: Tensor) -> list[NodeMeta]:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    names = [str(node.target) for node in graph.fx_graph.nodes if node.op == "placeholder"]
    dummy_in = dict(zip(names, inputs, strict=True))
    return add_common_metadata_analysis_pass(graph, {"dummy_in": dummy_in})[0].annotated_metas()


def of_function(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> list[NodeMeta]:
    inputs = [torch.randn(shape) for shape in shapes]
    return annotated((Apply1, Apply2, Apply3)[len(shapes) - 1](function), *inputs)


def only(metas: list[NodeMeta]) -> Count:
    """Return the count of the only node that computes something."""
    counts = [count(meta) for meta in metas if meta.op is not None and meta.quantizable]
    assert len(counts) == 1
    assert counts[0] is not None
    return counts[0]


LAYERS: list[tuple[nn.Module, tuple[int, ...], Count]] = [
    # 3 rows, 4 products for each of 5 results; the bias is part of the MAC.
    (nn.Linear(4, 5), (3, 4), Count(macs=60)),
    (nn.Linear(4, 5, bias=False), (2, 3, 4), Count(macs=120)),
    # 2 images, 8 channels of 6 x 6; each result sums 4 channels of 3 x 3.
    (nn.Conv2d(4, 8, 3), (2, 4, 8, 8), Count(macs=2 * 8 * 36 * 36)),
    # Two groups: each result sees half of the channels. Stride 2 with padding 1: 4 x 4.
    (nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), (2, 4, 8, 8), Count(macs=2 * 8 * 16 * 18)),
    # Depthwise: each result sees one channel.
    (nn.Conv2d(4, 4, 3, padding=1, groups=4), (1, 4, 8, 8), Count(macs=4 * 64 * 9)),
    # Length 10, kernel 3, dilation 2: 6 results of 3 channels x 3.
    (nn.Conv1d(3, 5, 3, dilation=2), (2, 3, 10), Count(macs=2 * 5 * 6 * 9)),
    # The course's four steps an element; without weights two are left.
    (nn.BatchNorm1d(16), (8, 16), Count(multiplies=512)),
    (nn.BatchNorm2d(3, affine=False), (2, 3, 4, 4), Count(multiplies=2 * 96)),
    # Mean and variance take three steps more; scale and shift one each.
    (nn.LayerNorm(8), (2, 3, 8), Count(multiplies=7 * 48)),
    (nn.LayerNorm(8, bias=False), (2, 3, 8), Count(multiplies=6 * 48)),
    (nn.LayerNorm(8, elementwise_affine=False), (2, 3, 8), Count(multiplies=5 * 48)),
    (nn.ReLU(), (8, 16), Count(adds=128)),
    (nn.GELU(), (8, 16), Count(adds=128)),
    # 10 rows of 4: an exponential and a division each, and 3 additions a row.
    (nn.Softmax(dim=-1), (10, 4), Count(multiplies=80, adds=30)),
    # The same along columns of 10: 4 columns with 9 additions each.
    (nn.Softmax(dim=0), (10, 4), Count(multiplies=80, adds=36)),
    # 2 x 3 x 4 x 4 results, 4 comparisons each; a mean has a division as well.
    (nn.MaxPool2d(2), (2, 3, 8, 8), Count(adds=4 * 96)),
    (nn.AvgPool2d(2), (2, 3, 8, 8), Count(adds=4 * 96, multiplies=96)),
    (nn.MaxPool2d((3, 2), stride=1), (1, 1, 4, 4), Count(adds=6 * 2 * 3)),
    (nn.AvgPool1d(5), (2, 3, 10), Count(adds=5 * 12, multiplies=12)),
    (nn.AdaptiveAvgPool2d(1), (2, 3, 4, 4), Count(adds=96, multiplies=6)),
    # 5 elements in 3 windows: [0, 2), [1, 4), [3, 5) are 7 elements.
    (nn.AdaptiveMaxPool1d(3), (1, 2, 5), Count(adds=14)),
    (nn.Embedding(10, 4), (), Count()),
    # 2 x 3 elements of a 4 x 4 x 4 volume less 2 x 2 x 2 each way: 3^3 results of 5 channels, 3 x 8 products each.
    (nn.Conv3d(3, 5, 2), (2, 3, 4, 4, 4), Count(macs=2 * 5 * 27 * 24)),
    # Each of 2 x 4 x 25 inputs is multiplied by 6 x 9 weights, whatever the stride; with 2 groups by 3 x 9.
    (nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5), Count(macs=200 * 54)),
    (nn.ConvTranspose1d(4, 6, 3, groups=2), (2, 4, 5), Count(macs=40 * 9)),
    # Groups and instances need mean and variance, as layer norm does; running statistics are constants.
    (nn.GroupNorm(2, 4), (2, 4, 3, 3), Count(multiplies=7 * 72)),
    (nn.InstanceNorm2d(4), (2, 4, 3, 3), Count(multiplies=5 * 72)),
    (nn.InstanceNorm2d(4, affine=True, track_running_stats=True), (2, 4, 3, 3), Count(multiplies=4 * 72)),
    # Square, add, divide and scale.
    (nn.RMSNorm(8), (2, 3, 8), Count(multiplies=4 * 48)),
    # 10 rows of 4: 40 exponentials, 30 additions, 10 logarithms, 40 subtractions.
    (nn.LogSoftmax(dim=-1), (10, 4), Count(multiplies=50, adds=70)),
    (nn.Softmax2d(), (2, 3, 4, 4), Count(multiplies=192, adds=64)),
    (nn.Hardswish(), (8, 16), Count(adds=128)),
    (nn.PReLU(), (8, 16), Count(adds=128)),
    # A sigmoid and a product for half of the elements.
    (nn.GLU(), (8, 16), Count(adds=64, multiplies=64)),
    (nn.MaxPool3d(2), (2, 3, 4, 4, 4), Count(adds=8 * 48)),
    # A square and an addition for each of 4 elements, and a root.
    (nn.LPPool2d(2.0, 2), (2, 3, 4, 4), Count(adds=96, multiplies=96 + 24)),
    # 4 neighbours: 4 products and 3 additions; the nearest one is copied.
    (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 3), Count(multiplies=4 * 72, adds=3 * 72)),
    (nn.Upsample(scale_factor=2), (1, 2, 3, 3), Count()),
]


@pytest.mark.parametrize(("layer", "shape", "expected"), LAYERS, ids=lambda value: str(value)[:40])
def test_layers(layer: nn.Module, shape: tuple[int, ...], expected: Count) -> None:
    x = torch.randn(shape) if shape else torch.tensor([[1, 2, 3]])
    assert only(annotated(nn.Sequential(layer), x)) == expected


FUNCTIONS: list[tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...], Count]] = [
    (lambda a, b: F.linear(a, b), ((3, 4), (5, 4)), Count(macs=60)),
    (lambda a, b, c: F.linear(a, b, bias=c), ((3, 4), (5, 4), (5,)), Count(macs=60)),
    (lambda a, b: F.conv2d(a, b, groups=2), ((1, 4, 5, 5), (6, 2, 3, 3)), Count(macs=6 * 9 * 18)),
    (lambda a, b: a @ b, ((2, 3, 4), (4, 5)), Count(macs=120)),
    (lambda a, b: a.matmul(b), ((4,), (4,)), Count(macs=4)),
    (lambda a, b: torch.matmul(a, b), ((7, 1, 3, 4), (2, 4, 5)), Count(macs=7 * 2 * 15 * 4)),
    (lambda a, b: torch.bmm(a, b), ((2, 3, 4), (2, 4, 5)), Count(macs=120)),
    (lambda a, b: a.bmm(mat2=b), ((2, 3, 4), (2, 4, 5)), Count(macs=120)),
    (lambda a, b: a + b, ((3, 4), (4,)), Count(adds=12)),
    (lambda a: 1 - a, ((3, 4),), Count(adds=12)),
    (lambda a, b: a * b, ((3, 1), (1, 4)), Count(multiplies=12)),
    (lambda a: 2 / a, ((3, 4),), Count(multiplies=12)),
    (lambda a: a.relu(), ((3, 4),), Count(adds=12)),
    (lambda a: F.max_pool2d(a, kernel_size=3, stride=1), ((1, 2, 5, 5),), Count(adds=2 * 9 * 9)),
    (lambda a: a.softmax(dim=0), ((10, 4),), Count(multiplies=80, adds=36)),
    (lambda a: a.mean(dim=1), ((3, 4),), Count(adds=12, multiplies=3)),
    (lambda a: F.layer_norm(a, (4,)), ((3, 4),), Count(multiplies=5 * 12)),
    (lambda a, b: torch.cat([a, b]), ((3, 4), (2, 4)), Count()),
    (torch.addmm, ((5,), (3, 4), (4, 5)), Count(macs=60)),
    (lambda a: a.sum(dim=1), ((3, 4),), Count(adds=12)),
    (lambda a: a.cumsum(1), ((3, 4),), Count(adds=12)),
    (lambda a: torch.amax(a, 1), ((3, 4),), Count(adds=12)),
    (lambda a: -a, ((3, 4),), Count(adds=12)),
    (lambda a: a.clamp(0, 1), ((3, 4),), Count(adds=12)),
    (lambda a: F.normalize(a), ((3, 4),), Count(multiplies=36)),
    # 2 x 3 results of 6 x 5 products with a matrix, and 5 with the second input.
    (
        lambda a, b, c: F.bilinear(a, b, c),
        ((2, 6), (2, 5), (3, 6, 5)),
        Count(macs=6 * 35, products=(Factors("data_in_0", "weight", 180, 6), Factors("data_in_1", INNER, 30, 5))),
    ),
    # Without a sum, an einsum is a product: here of two vectors.
    (lambda a, b: torch.einsum("i,j->ij", a, b), ((3,), (4,)), Count(multiplies=12)),
    (lambda a: torch.einsum("ij->j", a), ((3, 4),), Count(adds=12)),
    (lambda a: torch.einsum("ij->ji", a), ((3, 4),), Count()),
    (lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), ((7, 2, 3, 4), (2, 4, 5)), Count(macs=7 * 2 * 60)),
]


@pytest.mark.parametrize(("function", "shapes", "expected"), FUNCTIONS)
def test_functions_and_tensor_methods(
    function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], expected: Count
) -> None:
    assert only(of_function(function, *shapes)) == expected


def test_attention_counts_both_products_and_the_softmax() -> None:
    # 2 x 4 heads x 6 queries x 10 keys = 480 scores: of 8 products each, scaled, and 12 products with values.
    # A softmax takes two steps a score, and 9 additions for each of 48 rows.
    found = only(of_function(F.scaled_dot_product_attention, (2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 12)))
    assert (found.macs, found.multiplies, found.adds) == (480 * 20, 480 * 3, 48 * 9)
    by_key, by_value = (
        Factors("data_in_0", "data_in_1", 480 * 8, 8),
        Factors("data_in_0", "data_in_2", 480 * 12, 10),
    )
    assert found.products == (by_key, by_value)


UNQUANTIZED: list[tuple[Callable[..., Tensor], Count]] = [
    (torch.exp, Count(multiplies=12)),
    (lambda a: a**2, Count(multiplies=12)),
    (lambda a: a.rsqrt(), Count(multiplies=12)),
    (lambda a: torch.cos(a), Count(multiplies=12)),
    (lambda a: a > 0, Count(adds=12)),
    (lambda a: a.argmax(1), Count(adds=12)),
    # 12 additions for the mean; a subtraction, a square and an addition each; a division per row.
    (lambda a: a.var(1), Count(adds=36, multiplies=12 + 3)),
    (lambda a: torch.where(a, 1.0, 0.0), Count()),
    (lambda a: a.masked_fill(a, 0.0), Count()),
    (lambda a: F.pad(a, (1, 1)), Count()),
    (lambda a: a.triu(), Count()),
]


@pytest.mark.parametrize(("function", "expected"), UNQUANTIZED)
def test_functions_that_are_never_quantised_are_counted(function: Callable[..., Tensor], expected: Count) -> None:
    reads_truth_values = expected == Count()
    x = torch.randn(3, 4) > 0 if reads_truth_values else torch.randn(3, 4)
    (found,) = [meta for meta in annotated(Apply1(function), x) if meta.node.op not in ("placeholder", "output")]
    assert not found.quantizable
    assert count(found) == expected


REFERENCES: list[tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = [
    (lambda a, b: F.conv3d(a, b, stride=2), ((2, 4, 5, 6, 7), (6, 4, 2, 2, 2))),
    (lambda a, b: F.conv_transpose1d(a, b, stride=2), ((2, 4, 5), (4, 6, 3))),
    (lambda a, b: F.conv_transpose2d(a, b, groups=2), ((2, 4, 5, 5), (4, 3, 3, 3))),
    (lambda a, b: F.conv_transpose3d(a, b), ((2, 4, 3, 3, 3), (4, 6, 2, 2, 2))),
    (torch.addmm, ((5,), (3, 4), (4, 5))),
    (torch.baddbmm, ((2, 3, 5), (2, 3, 4), (2, 4, 5))),
    (lambda a, b: torch.einsum("bij,bkj->bik", a, b), ((2, 3, 4), (2, 5, 4))),
    (lambda a, b: torch.einsum("...ij,...jk->...ik", a, b), ((7, 2, 3, 4), (2, 4, 5))),
    (lambda a, b: torch.tensordot(a, b, dims=([1, 2], [0, 1])), ((2, 3, 4), (3, 4, 5))),
    (lambda a, b: F.linear(a, b), ((2, 3, 16), (7, 16))),
    (lambda a, b, c: F.conv1d(a, b, c, stride=2), ((2, 4, 11), (6, 4, 3), (6,))),
    (lambda a, b: F.conv2d(a, b, padding=1), ((2, 4, 9, 7), (6, 4, 3, 3))),
    (lambda a, b: F.conv2d(a, b, groups=2), ((2, 4, 9, 7), (6, 2, 3, 3))),
    (lambda a, b: F.conv2d(a, b, groups=4), ((2, 4, 9, 7), (4, 1, 3, 3))),
    (torch.bmm, ((5, 3, 4), (5, 4, 6))),
    (torch.mm, ((3, 4), (4, 6))),
    (torch.matmul, ((5, 1, 3, 4), (2, 4, 6))),
    (F.scaled_dot_product_attention, ((2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 12))),
    (F.scaled_dot_product_attention, ((1, 4, 6, 8), (3, 4, 10, 8), (3, 4, 10, 8))),
    (
        lambda a, b, c: F.scaled_dot_product_attention(a, b, c, enable_gqa=True),
        ((2, 4, 6, 8), (2, 2, 10, 8), (2, 2, 10, 8)),
    ),
]


@pytest.mark.parametrize(("function", "shapes"), REFERENCES)
def test_two_per_mac_agrees_with_the_counter_of_torch(
    function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...]
) -> None:
    # torch counts nothing for its fused attention on the CPU, but does for the products it is made of.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as reference:
        function(*(torch.randn(shape) for shape in shapes))
    assert 2 * only(of_function(function, *shapes)).macs == reference.get_total_flops() > 0


def test_a_network_agrees_with_the_counter_of_torch() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, groups=8),
        nn.Conv2d(8, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    )
    x = torch.randn(2, 3, 16, 16)
    with FlopCounterMode(display=False) as reference:
        model(x)
    macs = [operations(meta, "macs") for meta in annotated(model, x)]
    assert 2 * sum(found or 0 for found in macs) == reference.get_total_flops() > 0


def test_integers_are_not_floating_point() -> None:
    metas = annotated(Apply2(torch.add), torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6]))
    add = metas[2]
    assert (operations(add), flops(add)) == (3, 0)


def test_arithmetic_on_shapes_is_free() -> None:
    metas = of_function(lambda a: a.view(a.size(0) * a.size(1)), (3, 4))
    assert [operations(meta) for meta in metas] == [0] * len(metas)


def test_unknown_operations_are_none() -> None:
    metas = of_function(lambda a: torch.sinc(a), (3, 4))
    assert [operations(meta) for meta in metas] == [0, None, 0]  # input, sinc, output
    assert [flops(meta) for meta in metas] == [0, None, 0]


@pytest.mark.parametrize("window", [lambda a: a.size(2), lambda a: (a.shape[2], a.shape[3])])
def test_a_window_that_another_node_computes_is_counted_or_unknown(window: Callable[[Tensor], int]) -> None:
    metas = of_function(lambda a: F.avg_pool2d(a, window(a)), (1, 2, 4, 4))
    pool = next(meta for meta in metas if meta.mase_op == "avg_pool2d")
    assert operations(pool) in (None, 2 * 16 + 2)
