"""Learned rounding of several layers together."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.passes.graph import adaround_transform_pass, quantize_transform_pass
from chop.passes.graph.transforms.low_bits import block_rounding
from chop.passes.graph.transforms.low_bits.blocks import blocks_of
from samples import annotated

FIXED = {
    "name": "integer",
    "data_in_name": "float",
    "bias_name": "float",
    "weight_width": 4,
    "weight_frac_width": 2,
}


class Residual(nn.Module):
    """Two branches around a residual stream; a mask that does not depend on rounding is read by both."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask.unsqueeze(-1).float()
        x = self.stem(x)
        x = x + self.b(self.a(self.norm(x)).relu()) * mask
        y: Tensor = x + self.c(x).relu() * mask
        return y


def residual(garbage: float = 0.0) -> tuple[MaseGraph, dict[str, Tensor]]:
    torch.manual_seed(0)
    mask = torch.tensor([[1, 1, 0], [1, 1, 1]]).repeat(20, 1)
    x = torch.randn(40, 3, 2) @ torch.randn(2, 6) + 0.1 * torch.randn(40, 3, 6)
    inputs = {"x": torch.where(mask.bool().unsqueeze(-1), x, garbage), "attention_mask": mask}
    graph = annotated(Residual().eval(), **inputs)
    return quantize_transform_pass(graph, {"by": "type", "linear": {"config": FIXED}})[0], inputs


def quantized(model: nn.Module, x: Tensor, config: dict[str, Any]) -> MaseGraph:
    return quantize_transform_pass(annotated(model, input=x), {"by": "type", "linear": {"config": config}})[0]


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (1, [["stem"], ["a", "b"], ["c"]]),  # between a and b, the residual stream and the branch are read later
        (2, [["stem", "a", "b"], ["c"]]),
        (3, [["stem", "a", "b"], ["c"]]),
        (0, [["stem", "a", "b", "c"]]),
    ],
)
def test_blocks_end_where_one_tensor_is_left(least: int, expected: list[list[str]]) -> None:
    graph, _ = residual()
    layers = {meta.node for meta in graph.metas() if meta.quantized is not None}
    blocks = blocks_of(graph, layers, layers, least)
    assert [[node.name for node in block.nodes if node in layers] for block in blocks] == expected
    assert all(len(block.outputs) == 1 for block in blocks)
    nodes = [node for block in blocks for node in block.nodes]
    assert nodes == [node for node in graph.fx_graph.nodes if node.op not in ("placeholder", "output")]


@pytest.mark.slow
def test_two_layers_find_one_of_the_best_of_all_roundings() -> None:
    """All 256 roundings of 8 weights are tried."""
    torch.manual_seed(1)
    x = torch.randn(200, 3) @ torch.randn(3, 3)
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    first, second = (model.get_parameter(f"{i}.weight").detach() for i in (0, 2))
    expected = (x @ first.t()).relu() @ second.t()
    errors = []
    for ups in itertools.product((0, 1), repeat=8):
        up = torch.tensor(ups)
        a, b = ((w * 4).floor().add(u.reshape(w.shape)) / 4 for w, u in ((first, up[:6]), (second, up[6:])))
        errors.append(float(((x @ a.t()).relu() @ b.t() - expected).square().sum()))
    given = {"input_generator": [{"input": x}], "num_samples": 200, "learning_rate": 0.02}
    graph, info = adaround_transform_pass(quantized(model, x, FIXED), {**given, "layers_per_block": 2})
    found = float((graph.model(x) - expected).detach().square().sum())
    assert min(errors) * 0.999 <= found
    assert sum(error < found * 0.999 for error in errors) <= 5, "of 256 roundings"
    assert info["layers"]["_0"] == info["layers"]["_2"]
    signal = float(expected.square().sum())
    assert info["layers"]["_0"]["after_db"] == pytest.approx(10 * torch.tensor(signal / found).log10().item(), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds])
def test_no_format_becomes_worse(name: str) -> None:
    torch.manual_seed(2)
    x = torch.randn(60, 16) @ torch.randn(16, 16) + 1
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 4)).eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    graph = quantized(model, x, {"name": name})
    expected = model(x).detach()
    errors = [float((graph.model.eval()(x) - expected).detach().square().sum())]
    given = {"input_generator": [{"input": x[:40]}, {"input": x[40:]}], "layers_per_block": 0, "iterations": 30}
    graph, info = adaround_transform_pass(graph, given)
    errors.append(float((graph.model.eval()(x) - expected).detach().square().sum()))
    assert errors[1] <= errors[0] * (1 + 1e-5)
    assert info["layers"]["_0"]["gain_db"] >= 0
    assert all(value.equal(before[key]) for key, value in model.state_dict().items())


@pytest.mark.slow
def test_norms_and_biases_in_float_are_learned_unless_their_rate_is_zero() -> None:
    for rate, same in ((0.001, False), (0.0, True)):
        graph, inputs = residual()
        old = {key: value.clone() for key, value in graph.model.state_dict().items()}
        given = {"input_generator": [inputs], "layers_per_block": 2, "iterations": 300}
        graph, info = adaround_transform_pass(graph, {**given, "float_learning_rate": rate})
        assert info["layers"]["a"]["gain_db"] > 0
        new = graph.model.state_dict()
        assert [new[key].equal(old[key]) for key in ("norm.weight", "norm.bias", "a.bias")] == [same] * 3
        assert not new["a.weight"].equal(old["a.weight"])


@pytest.mark.slow
def test_padded_tokens_do_not_count_and_finished_blocks_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for garbage in (0.0, 99.0):
        graph, inputs = residual(garbage)
        given = {"input_generator": [inputs], "layers_per_block": 2, "iterations": 20}
        results.append(adaround_transform_pass(graph, given)[0].model.state_dict())
    assert all(value.allclose(results[1][key]) for key, value in results[0].items())
    graph, inputs = residual()
    given = {"input_generator": [inputs], "layers_per_block": 2, "iterations": 20, "checkpoint": tmp_path}
    adaround_transform_pass(graph, given)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(files) == 2
    monkeypatch.setattr(block_rounding, "_learnable", None)  # finished blocks do no work again
    again, _ = adaround_transform_pass(residual()[0], given)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == files
    assert all(value.equal(results[0][key]) for key, value in again.model.state_dict().items())


def test_bad_arguments_are_reported() -> None:
    graph, inputs = residual()
    with pytest.raises(ValueError, match="'layers_per_block' must be at least 0, got -1"):
        adaround_transform_pass(graph, {"input_generator": [inputs], "layers_per_block": -1})
    with pytest.raises(ValueError, match="adaround: input_generator yields no batches"):
        adaround_transform_pass(graph, {"input_generator": [], "layers_per_block": 2})


@pytest.mark.slow
def test_weights_in_float_are_not_learned() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)), torch.randn(40, 6)
    graph, _ = quantize_transform_pass(
        annotated(model, input=x),
        {"by": "name", "_0": {"config": FIXED}, "_2": {"config": {"name": "integer", "weight_name": "float"}}},
    )
    before = graph.model.get_parameter("2.weight").clone()
    graph, _ = adaround_transform_pass(
        graph, {"input_generator": [{"input": x}], "layers_per_block": 0, "iterations": 20}
    )
    assert graph.model.get_parameter("2.weight").equal(before)
