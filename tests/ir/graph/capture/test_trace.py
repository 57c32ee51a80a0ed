"""Tracing models into graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from chop.ir import MaseGraph
from chop.ir.graph.capture import CaptureError
from chop.passes.graph import quantize_transform_pass
from samples import LAB_PASS_ARGS, Mixed, Tiny, annotated, tiny_graph


def names(graph: MaseGraph) -> list[str]:
    return [node.name for node in graph.fx_graph.nodes]


@pytest.mark.slow
def test_nodes_have_the_names_that_fx_gives() -> None:
    graph = MaseGraph(Tiny())
    assert names(graph) == ["x", "seq_blocks_0", "seq_blocks_1", "seq_blocks_2", "seq_blocks_3", "output"]
    assert isinstance(graph.model, fx.GraphModule)
    assert graph.modules["seq_blocks.2"] is graph.model.get_submodule("seq_blocks.2")


def test_state_that_the_graph_does_not_use_is_kept() -> None:
    model = Mixed()
    assert MaseGraph(model).model.state_dict().keys() == model.state_dict().keys()


def test_the_graph_has_the_modes_of_the_model() -> None:
    model = Tiny()
    model.seq_blocks[0].eval()
    graph = MaseGraph(model)
    assert [m.training for m in graph.model.modules()] == [m.training for m in model.modules()]


class Branch(nn.Module):
    def forward(self, x: Tensor, flag: bool = True) -> Tensor:
        return x + 1 if flag else x * 2


class Decides(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(nn.ReLU(), Decides())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.blocks(x)
        return y


def test_fixed_arguments_choose_a_branch_and_are_no_inputs() -> None:
    graph = MaseGraph(Branch(), cf_args={"flag": False})
    assert names(graph) == ["x", "mul", "output"]
    assert graph.model(torch.tensor(3.0)) == 6
    assert names(MaseGraph(Branch(), cf_args={"flag": True})) == ["x", "add", "output"]


class Neighbours(nn.Module):
    """Its second input has the name that fx gives to the first when that is fixed."""

    def forward(self, x: Tensor, k: bool, k_1: Tensor, options: dict[str, int] | None = None) -> Tensor:
        factor = options["factor"] if options else 1
        return factor * (x + k_1 if k else x)


def test_fixed_arguments_are_not_confused_with_others() -> None:
    graph = MaseGraph(Neighbours(), cf_args={"k": True, "options": {"factor": 3}})
    assert names(graph) == ["x", "k_1", "add", "mul", "output"]
    assert graph.model(torch.tensor(1.0), torch.tensor(2.0)) == 9


def test_a_fixed_argument_must_exist() -> None:
    with pytest.raises(ValueError, match=r"Branch.forward has no 'flagg'; did you mean 'flag'\?"):
        MaseGraph(Branch(), cf_args={"flagg": False})


def test_a_trace_error_names_module_and_line() -> None:
    with pytest.raises(CaptureError) as error:
        MaseGraph(Outer())
    text = str(error.value)
    assert "module 'blocks.1' (Decides)" in text
    assert "test_trace.py:" in text
    assert "`if x.sum() > 0:`" in text
    assert "cf_args" in text
    assert "leaf_modules" in text


@pytest.mark.parametrize("forward", [lambda model, x, *, y=1: x + y, lambda model, x, **options: x + len(options)])
def test_a_decorated_forward_that_torch_fx_does_not_support_is_explained(forward: Callable[..., Any]) -> None:
    @wraps(forward)
    def decorated(*arguments: Any, **options: Any) -> Any:
        return forward(*arguments, **options)

    model = type("Decorated", (nn.Module,), {"forward": decorated})()
    expected = (
        r"cannot trace Decorated: .* a decorated forward with \*args, \*\*kwargs or keyword-only arguments\. "
    )
    with pytest.raises(CaptureError, match=expected):
        MaseGraph(model)


def test_leaf_modules_are_not_traced() -> None:
    graph = annotated_with_leaf()
    assert names(graph) == ["x", "blocks_0", "blocks_1", "output"]
    assert graph.metas()[2].mase_op == "unknown"


def annotated_with_leaf() -> MaseGraph:
    from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass

    graph, _ = init_metadata_analysis_pass(MaseGraph(Outer(), leaf_modules=(Decides,)))
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(3)}})[0]


def test_a_graph_of_a_graph_keeps_formats_and_metadata() -> None:
    first, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    again = MaseGraph(first.model)
    assert names(again) == names(first)
    assert again.metas()[3].args["weight"].format.precision == [8, 4]
    assert again.metas()[3].model is again.model
    x = torch.randn(4, 16)
    assert again.model(x).equal(first.model(x))


def test_a_quantised_model_can_be_traced_as_part_of_another() -> None:
    first, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    whole = annotated(nn.Sequential(first.model, nn.Softmax(1)), input=torch.randn(2, 16))
    assert [m.mase_op for m in whole.metas()][1:-1] == ["batch_norm1d", "relu", "linear", "relu", "softmax"]


def test_tracing_leaves_the_model_alone_and_gives_the_same_names_again() -> None:
    class Constants(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.tensor([1.0, 2.0]) + torch.ones(2)

    model = Constants()
    attributes = set(vars(model))
    graph = MaseGraph(model)
    assert set(vars(model)) == attributes
    assert names(graph) == names(MaseGraph(model))
    assert "_tensor_constant0" in names(graph)
    assert graph.model(torch.ones(2)).tolist() == [2.0, 3.0]


def test_names_that_the_generated_code_cannot_have() -> None:
    class Argument(nn.Module):
        def forward(self, torch: Tensor) -> Tensor:
            return torch + 1

    with pytest.raises(ValueError, match=r"Argument.forward has an argument 'torch', which hides the package"):
        MaseGraph(Argument())
    inner = nn.Sequential()
    inner.add_module("class", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"'0.class' contains the Python keyword 'class'; rename it"):
        MaseGraph(nn.Sequential(inner))


def test_augmented_assignments_change_the_tensor_itself() -> None:
    class Augmented(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x * 1.0
            z = y
            z += 1.0
            z *= 3.0
            z -= 2.0
            z /= 2.0
            return y

    graph = MaseGraph(Augmented())
    assert names(graph) == ["x", "mul", "add", "mul_1", "sub", "truediv", "output"]
    assert graph.model(torch.ones(2)).tolist() == [2.0, 2.0]


@dataclass
class Named(dict[str, Tensor]):
    """A dict with attributes, such as the outputs of transformers."""

    y: Tensor

    def __post_init__(self) -> None:
        self["y"] = self.y


class NamedOutput(nn.Module):
    def forward(self, x: Tensor) -> Named:
        return Named(y=x + 1)


def test_dicts_that_are_dataclasses_are_returned_as_they_are() -> None:
    result = MaseGraph(NamedOutput()).model(torch.zeros(2))
    assert type(result) is Named
    assert result.y.equal(torch.ones(2))
