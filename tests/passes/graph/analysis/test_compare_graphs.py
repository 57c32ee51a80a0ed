"""The error along the network, compared with numpy on values that hooks collect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop import cli
from chop.ir import MaseGraph
from chop.passes import PASSES
from chop.passes.graph import compare_graphs_analysis_pass, quantize_transform_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from samples import LAB_CONFIG, Mixed, annotated, tiny_graph

ALL = {"by": "type", "default": {"config": LAB_CONFIG}}


def quantised(graph: MaseGraph, pass_args: Mapping[str, Any] = ALL) -> MaseGraph:
    return quantize_transform_pass(deepcopy_mase_graph(graph), pass_args)[0]


def seen(graph: MaseGraph, x: Tensor) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the output of each layer, before the next one overwrites it."""
    found: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}
    copied = deepcopy_mase_graph(graph)
    copied.model.eval()
    for path, layer in copied.model.named_modules():
        if not [*layer.children()]:
            name = path.replace(".", "_")
            layer.register_forward_hook(
                lambda _, given, result, name=name: found.update({name: result.double().numpy().copy()})
            )
    with torch.no_grad():
        copied.model(x.clone())
    return found


def test_every_layer_agrees_with_numpy() -> None:
    graph, x = tiny_graph(), torch.randn(32, 16)
    new = quantised(graph)
    returned, info = compare_graphs_analysis_pass(graph, new, {"x": x})
    assert returned is new
    before, after = seen(graph, x), seen(new, x)
    assert list(info["by_node"]) == list(before) == [f"seq_blocks_{i}" for i in range(4)]
    for name, found in info["by_node"].items():
        a, b = before[name].ravel(), after[name].ravel()
        assert found == pytest.approx(
            {
                "sqnr_db": 10 * np.log10(a @ a / ((a - b) @ (a - b))),
                "max_error": np.abs(a - b).max(),
                "cosine": a @ b / np.linalg.norm(a) / np.linalg.norm(b),
            }
        )
    assert info["unmatched"] == []
    assert info["threshold_db"] == 20


def test_the_first_node_below_the_threshold_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(3)))
    with torch.no_grad():
        for layer, weight in zip(model, (1.0, 0.55, 2.0), strict=True):
            layer.weight.fill_(weight)  # type: ignore[operator]
    graph = annotated(model, input=torch.ones(1, 1))
    config = {"name": "integer", "weight_width": 8, "weight_frac_width": 1, "data_in_name": "float"}
    new = quantised(graph, {"by": "type", "default": {"config": config | {"bias_name": "float"}}})
    batch = {"input": torch.ones(1, 1)}
    caplog.set_level("INFO")
    _, info = compare_graphs_analysis_pass(graph, new, batch, threshold_db=25)
    assert "SQNR of '_2' 20.8 dB; '_1' is the first node below 25 dB" in caplog.text
    expected = 10 * math.log10(0.55**2 / 0.05**2)  # 20.8 dB, also after the last layer, which is exact
    assert [each["sqnr_db"] for each in info["by_node"].values()] == pytest.approx([math.inf, expected, expected])
    assert (info["first_below"], info["threshold_db"]) == ("_1", 25)
    assert compare_graphs_analysis_pass(graph, new, batch)[1]["first_below"] is None


def test_functions_methods_and_operators_are_compared_too() -> None:
    x = torch.randn(8, 6)
    graph = annotated(Mixed(), x=x)
    _, info = compare_graphs_analysis_pass(graph, quantised(graph), {"x": x})
    others = ("placeholder", "get_attr", "output")
    assert list(info["by_node"]) == [node.name for node in graph.fx_graph.nodes if node.op not in others]
    _, same = compare_graphs_analysis_pass(graph, deepcopy_mase_graph(graph), {"x": x})
    assert all(each == {"sqnr_db": math.inf, "max_error": 0, "cosine": 1} for each in same["by_node"].values())


def test_several_batches_equal_one() -> None:
    graph, x = tiny_graph(), torch.randn(32, 16)
    new = quantised(graph)
    at_once = compare_graphs_analysis_pass(graph, new, {"x": x})[1]["by_node"]
    parts = compare_graphs_analysis_pass(graph, new, [{"x": part} for part in x.split(7)])[1]["by_node"]
    for name, numbers in at_once.items():
        assert parts[name] == pytest.approx(numbers, rel=1e-4)


def test_endless_batches_are_stopped() -> None:
    graph, x = tiny_graph(), torch.randn(32, 16)
    new = quantised(graph)
    forever = itertools.repeat({"x": x})
    first = compare_graphs_analysis_pass(graph, new, {"x": x[:5]})[1]["by_node"]
    assert compare_graphs_analysis_pass(graph, new, forever, num_samples=5)[1]["by_node"] == first


class Sizes(nn.Module):
    """Nodes that return sizes, and nodes that return two tensors."""

    def __init__(self, kept: int, name: str) -> None:
        super().__init__()
        self.kept = kept
        self.first = nn.Linear(6, 6)
        setattr(self, name, nn.Linear(6, 2))
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        values, _ = self.first(x).topk(self.kept, dim=1)
        y: Tensor = getattr(self, self.name)(x).sum() + values.sum() * x.shape[0]
        return y


def test_nodes_without_a_match_are_listed() -> None:
    x = torch.randn(4, 6)
    torch.manual_seed(0)
    ori = annotated(Sizes(2, "old"), x=x)
    torch.manual_seed(0)
    new = annotated(Sizes(3, "other"), x=x)
    _, info = compare_graphs_analysis_pass(ori, new, {"x": x})
    assert info["unmatched"] == ["old", "other", "topk", "getitem", "getitem_1"]
    assert "first" in info["by_node"]
    assert "getattr_1" not in info["by_node"]
    assert info["by_node"]["first"]["sqnr_db"] == math.inf
    with pytest.raises(ValueError, match="no node that both graphs have"):
        compare_graphs_analysis_pass(ori, annotated(Mixed(), x=x), {"x": x})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "there is nothing to compare: no batches"),
        ([torch.zeros(2, 16)], "must be dicts such as {'x': tensor}, got Tensor"),
        ({"y": torch.zeros(2, 16)}, "the model has no input 'y'"),
    ],
)
def test_mistakes_are_reported(inputs: Iterable[Any], message: str) -> None:
    graph = tiny_graph()
    with pytest.raises(ValueError, match=message):
        compare_graphs_analysis_pass(graph, quantised(graph), inputs)


def test_both_graphs_stay_unchanged_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    graph = tiny_graph()
    new = quantised(graph)
    new.model.train()
    buffers = {key: value.clone() for key, value in new.model.state_dict().items()}
    compare_graphs_analysis_pass(graph, new, {"x": torch.randn(8, 16)})
    assert new.model.training
    assert all(value.equal(buffers[key]) for key, value in new.model.state_dict().items())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("key", ["input_generator", "inputs"])
def test_the_registered_pass_takes_the_original_as_an_argument(key: str) -> None:
    graph, x = tiny_graph(), torch.randn(8, 16)
    new = quantised(graph)
    run_pass, args = PASSES["compare_graphs"], {"original": graph, key: [{"x": x}], "num_samples": 5}
    assert run_pass is compare_graphs_analysis_pass
    returned, info = run_pass(new, args)
    assert returned is new
    assert info == compare_graphs_analysis_pass(graph, new, {"x": x[:5]})[1]


def test_the_original_is_required() -> None:
    with pytest.raises(ValueError, match="'original', the graph to compare with, is required"):
        PASSES["compare_graphs"](tiny_graph(), {"input_generator": []})


def test_unknown_and_surplus_arguments_are_refused() -> None:
    graph = tiny_graph()
    with pytest.raises(ValueError, match="unknown key 'treshold_db'; did you mean 'threshold_db'"):
        compare_graphs_analysis_pass(graph, graph, [], treshold_db=3)
    with pytest.raises(TypeError, match="takes at most 5 arguments, got 6"):
        compare_graphs_analysis_pass(graph, graph, [], 20.0, 8, 9)


def test_a_model_that_is_not_a_graph_is_refused() -> None:
    graph = annotated(nn.Linear(2, 2), input=torch.randn(1, 2))
    model: Any = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="needs a MaseGraph, got Linear; create one with MaseGraph"):
        compare_graphs_analysis_pass(graph, model, {"input": torch.randn(1, 2)})
    with pytest.raises(ValueError, match="needs a MaseGraph, got Linear; create one with MaseGraph"):
        compare_graphs_analysis_pass(model, graph, {"input": torch.randn(1, 2)})


@pytest.mark.slow
def test_passes_over_two_graphs_run_from_a_toml_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "compare.toml"
    config.write_text(
        'model = "jsc-tiny"\ndataset = "jsc"\nbatch_size = 8\n'
        '[passes.quantize]\nby = "type"\n[passes.quantize.linear.config]\nname = "integer"\n'
        "data_in_width = 8\nweight_width = 8\nbias_width = 8\n"
        "[passes.compare_graphs]\nnum_samples = 16\n"
        f'[passes.summarize_quantization]\nsave_dir = "{tmp_path / "summary"}"\n'
        "[transform]\nevaluate = false\n"
    )
    assert cli.main(["transform", "--config", str(config), "--project-dir", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "LinearInteger" in printed.out
    assert "compared with the original: SQNR of" in printed.err
    assert (
        "seq_blocks_2,seq_blocks_2,module_related_func,linear,Linear,LinearInteger,True"
        in (tmp_path / "summary" / "quantize_table.csv").read_text()
    )
