"""Every pass on a graph on another device: the same result as on the CPU."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir import MaseGraph
from chop.ir.graph.interpreter import evaluation_mode, run_model
from chop.passes import PASSES
from chop.passes.graph import quantize_transform_pass, save_mase_graph_interface_pass
from chop.passes.graph import save_node_meta_param_interface_pass as save_metadata
from contracts.test_passes import X, arguments
from device.other import NAME
from samples import LAB_PASS_ARGS, annotated, tiny_graph


def there(value: Any) -> Any:
    """Return tensors and graphs on the other device."""
    if isinstance(value, MaseGraph):
        moved = copy.deepcopy(value)
        moved.model.to(NAME)
        return moved
    return pytree.tree_map(lambda leaf: leaf.to(NAME) if isinstance(leaf, Tensor) else leaf, value)


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_does_the_same_on_another_device(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)[0]
    save_mase_graph_interface_pass(graph, tmp_path)
    save_metadata(graph, tmp_path)
    given = arguments(PASSES[name], graph, tmp_path)
    other = there(graph)
    other_given = {key: there(value) for key, value in given.items()}
    torch.manual_seed(1)
    PASSES[name](graph, given)
    torch.manual_seed(1)
    returned, _ = PASSES[name](other, other_given)
    same_state(returned, graph)


class Convolutions(nn.Module):
    """Two convolutions, one depthwise, and attention over the positions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 32, 3, groups=32, padding=1)
        self.query, self.last = nn.Linear(32, 32), nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.norm(self.first(x)))).flatten(2).transpose(1, 2)
        y = F.scaled_dot_product_attention(self.query(y), y, y)
        scores: Tensor = self.last(y.mean(1))
        return scores


IMAGES, CLASSES = torch.randn(4, 3, 6, 6), torch.tensor([0, 1, 2, 4])
ROUNDED = ("integer", "mxfp", "mxint", "nvfp4", "fp8", "block_fp", "ternary", "log")
BATCHES = [({"x": IMAGES}, CLASSES)]
ONLY_INPUTS = [{"x": IMAGES}]
VARIANTS: list[tuple[str, str, dict[str, Any]]] = [
    *(("gptq", name, {"input_generator": ONLY_INPUTS}) for name in ROUNDED),
    ("gptq", "integer", {"input_generator": ONLY_INPUTS, "order": False}),
    *(("adaround", name, {"input_generator": ONLY_INPUTS, "iterations": 5}) for name in ("integer", "mxint")),
    *(("clip", name, {"input_generator": ONLY_INPUTS}) for name in ("integer", "fp8", "mxint")),
    *(("correct_bias", name, {"input_generator": ONLY_INPUTS}) for name in ("integer", "mxint")),
    *(("smooth", name, {"input_generator": ONLY_INPUTS}) for name in ("integer", "mxint")),
    *(("rotate", name, {}) for name in ("integer", "mxint")),
    *(("equalize", name, {}) for name in ("integer", "mxint")),
    ("recover_accuracy", "mxint", {"input_generator": ONLY_INPUTS}),
    *(
        ("prune", "integer", {"labelled_batches": BATCHES, "method": method, "scope": scope, "granularity": part})
        for method in ("l1", "l2", "random", "wanda", "movement")
        for scope in ("local", "global")
        for part in ("element", "channel", "2:4")
        if not (part == "2:4" and scope == "global")
    ),
    *(
        ("calibrate", name, {"input_generator": ONLY_INPUTS, "method": method})
        for method in ("min_max", "percentile", "mse", "entropy")
        for name in ("integer", "fp8")
    ),
    *(
        ("sensitivity", name, {"input_generator": ONLY_INPUTS, "config": {"name": "mxfp"}})
        for name in ("integer", "nvfp4")
    ),
    *(("profile_statistics", name, {"input_generator": ONLY_INPUTS}) for name in ("integer",)),
    *(("explain", name, {"node": "first"}) for name in ROUNDED),
]


@pytest.mark.parametrize(("name", "number_format", "given"), VARIANTS, ids=lambda value: str(value)[:40])
def test_every_method_does_the_same_on_another_device(name: str, number_format: str, given: dict[str, Any]) -> None:
    torch.manual_seed(0)
    graph = annotated(Convolutions(), x=IMAGES)
    config = {"name": number_format, **({"weight_width": 4} if number_format == "integer" else {})}
    graph = quantize_transform_pass(
        graph, {"by": "type", "linear": {"config": config}, "conv2d": {"config": config}}
    )[0]
    other = there(graph)
    torch.manual_seed(1)
    _, expected = PASSES[name](graph, given)
    torch.manual_seed(1)
    _, info = PASSES[name](other, given)  # batches come from the CPU, as those of a DataLoader do
    same_state(other, graph)
    assert info.keys() == expected.keys()


def same_state(other: MaseGraph, graph: MaseGraph) -> None:
    """Check that two graphs have the same state and compute the same, each on its device."""
    expected, state = graph.model.state_dict(), other.model.state_dict()
    assert expected.keys() == state.keys()
    for key, tensor in state.items():
        assert tensor.device.type == NAME, key
        torch.testing.assert_close({key: tensor.cpu()}, {key: expected[key]})  # an error names the key
    x = IMAGES if isinstance(graph.modules.get("first"), nn.Conv2d) else X
    with evaluation_mode(graph.model), evaluation_mode(other.model):
        torch.testing.assert_close(other.model(x.to(NAME)).cpu(), graph.model(x))


class Norms(nn.Module):
    """A model without parameters."""

    def forward(self, x: Tensor) -> Tensor:
        return x.softmax(-1)


def test_a_model_without_parameters_runs_where_its_inputs_are() -> None:
    assert run_model(MaseGraph(Norms()), {"x": X.to(NAME)}).device.type == NAME
