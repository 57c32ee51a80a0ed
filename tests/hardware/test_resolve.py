"""Folding batch norms and completing number formats."""

from __future__ import annotations

import pytest
import torch
from hardware_samples import (
    EVERYTHING,
    annotated,
    in_formats,
    num_differences,
    program_of,
    quantized,
    with_random_norms,
)
from torch import nn

from chop.formats import FORMATS, Format
from chop.formats.integer import Integer
from chop.hardware.prepare import prepare
from chop.ir import MaseGraph
from chop.passes.graph import (
    fold_batch_norm_transform_pass,
    load_mase_graph_interface_pass,
    resolve_formats_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import LAB_PASS_ARGS, Tiny


def names(graph: MaseGraph) -> list[str]:
    return [node.name for node in graph.fx_graph.nodes]


@pytest.mark.parametrize(
    ("model", "shape", "renamed"),
    [
        (nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)), (6,), {"_1": "_0"}),
        (nn.Sequential(nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4, affine=False)), (6,), {"_1": "_0"}),
        (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 4)), (6,), {"_0": "_1"}),
        (nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)), (2, 5, 5), {"_1": "_0"}),
        (nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3, bias=False)), (2, 5, 5), {"_0": "_1"}),
        (nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3, padding=1)), (2, 5, 5), {}),
        (nn.Sequential(nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 4)), (6,), {}),
        (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6)), (6,), {"_0": "_1", "_2": "_1"}),
    ],
    ids=[
        "linear",
        "no bias",
        "before linear",
        "conv",
        "before conv",
        "before padding",
        "relu between",
        "both sides",
    ],
)
def test_folding_keeps_the_function_of_a_float_model(
    model: nn.Module, shape: tuple[int, ...], renamed: dict[str, str]
) -> None:
    x = torch.randn(8, *shape)
    expected = with_random_norms(model).eval()(x)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    graph, info = fold_batch_norm_transform_pass(annotated(model, x), {"labelled_batches": None})
    assert info["renamed"] == renamed
    assert len(names(graph)) == 2 + len(list(model.children())) - len(renamed)
    torch.testing.assert_close(graph.model(x), expected, rtol=1e-4, atol=1e-5)
    assert all(value.equal(state[key]) for key, value in model.state_dict().items())  # the model keeps its own


def test_a_layer_that_is_called_twice_is_not_folded() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.linear(self.norm(self.linear(x)))
            return y

    _, info = fold_batch_norm_transform_pass(annotated(with_random_norms(Twice()), torch.randn(3, 4)))
    assert info["renamed"] == {}


def test_a_graph_in_which_only_linear_layers_are_quantised_is_completed() -> None:
    x = torch.randn(50, 16) * 2
    graph = quantized(with_random_norms(Tiny()), x, LAB_PASS_ARGS)
    before = names(graph)
    labels = torch.randint(0, 5, (50,))
    graph, info = resolve_formats_transform_pass(graph, {"labelled_batches": [({"x": x}, labels)]})
    completed: dict[str, dict[str, Format]] = info["completed"]
    assert list(completed) == ["seq_blocks_0", "seq_blocks_1"]
    assert info["exact"] == ["seq_blocks_3"]
    assert set(completed["seq_blocks_0"]) == {"data_in_0", "weight", "bias"}
    assert all(isinstance(each, Integer) and each.width == 8 for each in completed["seq_blocks_0"].values())
    assert info["accuracy"].keys() == {"before", "after"}
    assert names(graph) == before
    assert num_differences(*program_of(graph), x) == 0


def test_strict_refuses_a_node_in_float_and_says_how_to_quantise_it() -> None:
    graph = quantized(Tiny(), torch.randn(4, 16), LAB_PASS_ARGS)
    message = (
        r"node 'seq_blocks_0' \(batch_norm1d\) is in float; quantise it with \[passes.quantize.batch_norm1d"
        r'.config\] name = "integer", data_in_width = 8, data_in_frac_width = 4, weight_width = 8'
    )
    with pytest.raises(ValueError, match=message):
        resolve_formats_transform_pass(graph, {"strict": True})


def test_a_graph_without_formats_has_nothing_to_complete_from() -> None:
    with pytest.raises(
        ValueError, match=r"node 'seq_blocks_0' \(batch_norm1d\) is in float, and so are its neighbours"
    ):
        resolve_formats_transform_pass(annotated(Tiny(), torch.randn(4, 16)))


def test_a_resolved_graph_is_saved_and_loaded_bit_for_bit(tmp_path: object) -> None:
    x = torch.randn(30, 16) * 2
    graph, _ = program_of(quantized(with_random_norms(Tiny()), x, EVERYTHING))
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(None, tmp_path)
    assert loaded.model.eval()(x).equal(graph.model(x))


def test_resolving_twice_changes_nothing() -> None:
    x = torch.randn(30, 16) * 2
    graph, _ = program_of(quantized(with_random_norms(Tiny()), x, EVERYTHING))
    again, info = resolve_formats_transform_pass(program_of(graph)[0])
    assert info["completed"] == {}
    assert again.model(x).equal(graph.model(x))


@pytest.mark.parametrize("last", [nn.Softmax(dim=1), nn.LogSoftmax(dim=-1)], ids=str)
def test_a_softmax_at_the_end_is_left_out(last: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(6, 4), last)
    x = torch.randn(30, 6)
    prepared = prepare(quantized(model, x))
    assert prepared.removed == ["_1"]
    assert prepared.num_differences(x.numpy()) == 0
    assert prepared.graph.model(x).equal(program_of(quantized(model[:1], x))[0].model(x))


@pytest.mark.parametrize("name", ["binary", "ternary"])
def test_the_scale_of_signs_becomes_fixed_point_and_keeps_the_batch_norm_apart(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(500, 8)
    model = with_random_norms(nn.Sequential(nn.Linear(8, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4)))
    config = {
        "name": "integer",
        "data_in_width": 10,
        "data_in_frac_width": 6,
        "bias_width": 10,
        "bias_frac_width": 6,
    }
    signs = {"config": {**config, "weight_name": name}}
    graph = quantized(model, x, {"by": "type", "default": {"config": config}, "linear": signs})
    prepared = prepare(graph)
    assert prepared.renamed == {}  # folded weights would lose the factors of the batch norm
    assert prepared.num_differences(x.numpy()) == 0
    before, after = graph.model(x), torch.from_numpy(prepared.fake_quantized(x.numpy()))
    assert (before - after).abs().max() < 0.1 * before.abs().max()
    scales = prepared.resolved.scales
    assert list(scales) == ["_0", "_3"]
    largest = graph.model.get_submodule("3").quantized("weight").abs().max()  # type: ignore[operator]
    assert scales["_3"] == pytest.approx(float(largest.detach()), rel=2**-9)


def test_a_softmax_in_the_middle_is_refused() -> None:
    graph = quantized(nn.Sequential(nn.Linear(6, 4), nn.Softmax(dim=1), nn.Linear(4, 2)), torch.randn(8, 6))
    with pytest.raises(ValueError, match=r"node '_1' \(softmax\) divides by a sum of exponentials"):
        prepare(graph)


@pytest.mark.parametrize("signs", ["binary", "ternary"])
def test_a_norm_without_weights_stays_apart_from_signs_and_gets_formats(signs: str) -> None:
    x = torch.randn(50, 3) * 2
    model = with_random_norms(nn.Sequential(nn.BatchNorm1d(3, affine=False), nn.Linear(3, 2)))
    graph = in_formats(model, x, {"data_in_0": Integer(6, 3), "weight": FORMATS[signs](), "bias": Integer(6, 3)})
    ready = prepare(graph)
    assert ready.renamed == {}
    assert set(ready.resolved.completed["_0"]) == {"data_in_0", "weight", "bias"}
    assert ready.num_differences(x.numpy()) == 0


@pytest.mark.parametrize("signs", ["binary", "ternary"])
def test_the_scale_of_a_norm_in_signs_is_rounded_as_that_of_a_layer(signs: str) -> None:
    x = torch.randn(50, 3) * 2
    model = with_random_norms(nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))
    graph = in_formats(model, x, {"data_in_0": Integer(6, 3), "weight": FORMATS[signs](), "bias": Integer(6, 3)})
    ready = prepare(graph)
    assert set(ready.resolved.scales) == {"_0"}
    assert ready.num_differences(x.numpy()) == 0
