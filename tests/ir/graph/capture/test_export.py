"""Capturing models with torch.export."""

from __future__ import annotations

import copy
import logging
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.capture import CaptureError
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import LAB_CONFIG


class Shifted(nn.Embedding):
    """An embedding that overrides `forward`, as OPT's positional embedding does."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input + 2)


class Block(nn.Module):
    """Layers, a branch on a shape that torch.fx cannot trace, functions that follow the mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 4:
            raise ValueError("4 features")
        y: Tensor = self.drop(self.relu(self.linear(self.norm(x))))
        return F.dropout(y, 0.5, self.training) + y


class Net(nn.Module):
    """Calls a block twice, creates a constant, reads a buffer and an embedding that adds 2."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.embedding = Block(), Shifted(8, 4)
        self.register_buffer("shift", torch.ones(4))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor, positions: Tensor, scale: float = 2.0) -> dict[str, Any]:
        y = self.block(self.block(x)) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        y = y + self.embedding(positions) * scale + self.shift
        return {"y": y, "parts": (y[:, :2], [y.mean()])}


def inputs(rows: int = 3) -> dict[str, Tensor]:
    return {"x": torch.randn(rows, 4), "positions": torch.arange(rows) % 4}


def targets(graph: MaseGraph) -> list[str]:
    return [str(node.target) for node in graph.fx_graph.nodes]


@pytest.fixture
def model() -> Net:
    return Net().eval()


def check_same(graph: MaseGraph, model: nn.Module, batch: dict[str, Any]) -> None:
    with torch.no_grad():
        expected, found = model(**batch), graph.model(**batch)
    assert found.keys() == expected.keys()
    assert found["y"].equal(expected["y"])
    assert found["parts"][0].equal(expected["parts"][0])
    assert found["parts"][1][0].equal(expected["parts"][1][0])


@pytest.mark.slow
def test_export_is_used_where_torch_fx_fails(model: Net) -> None:
    attributes = set(vars(model))
    graph = MaseGraph(model, example_inputs=inputs())
    assert graph.capture == "export"
    assert set(vars(model)) == attributes
    check_same(graph, model, inputs())
    check_same(graph, model, inputs(7))
    check_same(graph, model, inputs(1))
    assert [node.target for node in graph.fx_graph.nodes if node.op == "placeholder"] == ["x", "positions"]


@pytest.mark.slow
def test_calls_of_layers_are_raised_to_their_paths(model: Net) -> None:
    graph = MaseGraph(model, example_inputs=inputs())
    called = [str(node.target) for node in graph.fx_graph.nodes if node.op == "call_module"]
    assert called == [f"block.{name}" for name in ("norm", "linear", "relu", "drop")] * 2
    assert graph.model.get_submodule("block.linear") is model.block.linear
    assert graph.model.state_dict().keys() == model.state_dict().keys()
    names = [node.name for node in graph.fx_graph.nodes]
    assert {"block_linear", "block_linear_1", "shift", "_tensor_constant0"} <= set(names)
    assert names == [node.name for node in MaseGraph(model, example_inputs=inputs()).fx_graph.nodes]


@pytest.mark.slow
def test_a_layer_with_its_own_forward_is_not_the_layer_of_the_table(model: Net) -> None:
    graph = MaseGraph(model, example_inputs=inputs())
    assert "embedding" not in targets(graph)
    assert "aten.embedding.default" in targets(graph)


@pytest.mark.slow
def test_bookkeeping_is_left_out(model: Net) -> None:
    class Wrapped(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            with torch.enable_grad():
                x = x * 2
            with torch.autocast("cpu", enabled=False):
                x = x.double() + 1
            return x[:] if x.dim() else x

    graph = MaseGraph(Wrapped(), example_inputs=torch.ones(3), capture="export")
    assert graph.model(torch.ones(2)).tolist() == [3.0, 3.0]
    assert not any("wrap_with" in target or "assert" in target or "alias" in target for target in targets(graph))


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False])
def test_functions_and_layers_follow_the_mode(model: Net, training: bool) -> None:
    model.train(training)
    graph = MaseGraph(model, example_inputs=inputs())
    assert model.training is training
    assert graph.model.training is training
    batch = inputs(64)
    for mode in (True, False):
        torch.manual_seed(1)
        expected = copy.deepcopy(model).train(mode)(**batch)["y"]
        torch.manual_seed(1)
        assert copy.deepcopy(graph).model.train(mode)(**batch)["y"].equal(expected)
    graph.model.train()
    graph.model.get_submodule("block").eval()
    assert graph.model(**batch)["y"].equal(graph.model(**batch)["y"])


@pytest.mark.slow
def test_attention_has_its_dropout_in_training_only() -> None:
    class Attention(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[-1] == 4
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5 if self.training else 0.0)

    x = torch.randn(2, 3, 4)
    graph = MaseGraph(Attention(), example_inputs=x)
    assert graph.capture == "export"
    node = next(node for node in graph.fx_graph.nodes if "attention" in node.name)
    assert graph.model.eval()(x).equal(Attention().eval()(x))
    assert node.kwargs["dropout_p"] == 0.0
    graph.model.train()
    assert node.kwargs["dropout_p"] == 0.5


@pytest.mark.slow
def test_a_model_with_other_functions_in_training_is_for_evaluation_only(caplog: pytest.LogCaptureFixture) -> None:
    class Other(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[-1] == 4
            x = F.dropout(x, 0.5, self.training)
            return F.dropout(x) if self.training else x

    with caplog.at_level(logging.WARNING, logger="chop"):
        graph = MaseGraph(Other(), example_inputs=torch.ones(2, 4))
    assert "its graph is for evaluation only" in caplog.text
    assert graph.model.eval()(torch.ones(2, 4)).equal(torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"is for evaluation: .*`return F.dropout\(x\) if self.training else x`"):
        graph.model.train()(torch.ones(2, 4))


@pytest.mark.slow
def test_gradients_reach_all_parameters(model: Net) -> None:
    graph = MaseGraph(model, example_inputs=inputs())
    batch = inputs()
    model(**batch)["y"].sum().backward()
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    graph.model(**batch)["y"].sum().backward()
    for name, parameter in graph.model.named_parameters():
        assert (parameter.grad is None) == (expected[name] is None)
        assert parameter.grad is None or parameter.grad.equal(expected[name])  # type: ignore[arg-type]


@pytest.mark.slow
def test_saved_copied_and_quantised(model: Net, tmp_path: Path) -> None:
    batch = inputs()
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, example_inputs=batch), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch})
    graph, info = quantize_transform_pass(graph, {"by": "type", "default": {"config": LAB_CONFIG}})
    assert {"block_linear", "embedding", "add"} <= set(info["quantized"])
    assert isinstance(graph.model.get_submodule("block.linear"), QuantizedLayer)
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(MaseGraph(model, example_inputs=batch), tmp_path)
    for other in (loaded, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert other.model(**batch)["y"].equal(graph.model(**batch)["y"])


@dataclass
class Result:
    """A dataclass as output."""

    y: Tensor
    other: Tensor | None = None


class Structured(nn.Module):
    def forward(self, pair: tuple[Tensor, dict[str, Tensor]]) -> tuple[Result, Tensor]:
        first, second = pair
        assert first.shape[0] > 0
        return Result(first + second["b"]), first * 2


@pytest.mark.slow
def test_inputs_and_outputs_may_be_nested(tmp_path: Path) -> None:
    a, b = torch.ones(2, 3), torch.full((2, 3), 2.0)
    graph = MaseGraph(Structured(), example_inputs={"pair": (a, {"b": b})})
    result, double = graph.model((a, {"b": b}))
    assert isinstance(result, Result)
    assert result.y.equal(a + b)
    assert result.other is None
    assert double.equal(2 * a)
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"pair": (a, {"b": b})}})
    save_mase_graph_interface_pass(graph, tmp_path)
    loaded, _ = load_mase_graph_interface_pass(None, tmp_path)
    named, _ = loaded.model((a, {"b": b}))
    assert named.y.equal(a + b)
    assert named["y"].equal(a + b)
    with pytest.raises(AttributeError, match="the model has no output 'logits'; it has y"):
        named.logits  # noqa: B018


@pytest.mark.slow
def test_recurrent_layers_are_kept_whole_and_the_model_stays_usable() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[-1] == 4
            y: Tensor = self.head(self.lstm(x)[0][:, -1])
            return y

    model, x = Recurrent().eval(), torch.randn(2, 5, 4)
    expected = model(x)
    graph = MaseGraph(model, example_inputs=x)
    assert graph.capture == "export"
    assert targets(graph).count("aten.lstm.input") == 1
    assert graph.model(x).equal(expected)
    assert model(x).equal(expected)
    assert graph.model(torch.randn(3, 5, 4)).shape == (3, 2)


def data_dependent(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


class Calls(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.function(x)
        return y if mask is None else y * mask


def without_torch(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy())


@pytest.mark.slow
def test_if_both_fail_one_message_has_both_reasons_and_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CaptureError) as error:
        MaseGraph(Calls(without_torch), example_inputs=torch.ones(2))
    text = str(error.value)
    assert text.count("`return torch.from_numpy(x.numpy())`") == 2
    assert "torch.fx cannot trace Calls" in text
    assert "torch.export cannot capture Calls" in text
    assert "quantize_module_transform_pass" in text
    assert "\n" not in text
    assert capsys.readouterr() == ("", ""), "torch.export prints the unfinished graph"


@pytest.mark.slow
def test_code_that_depends_on_values_is_the_only_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """The reason of torch.fx may be another line, which is not what prevents a graph."""

    def function(x: Tensor) -> Tensor:
        return data_dependent(x if x.shape[0] > 1 else 2 * x)

    with pytest.raises(CaptureError) as error:
        MaseGraph(Calls(function), example_inputs=torch.ones(2))
    text = str(error.value)
    assert "torch.fx" not in text
    assert "`return x if x.sum() > 0 else -x`: the code depends on the values of a tensor. " in text
    assert "quantize_module_transform_pass" in text
    assert capsys.readouterr() == ("", ""), "torch.export prints the unfinished graph"


@pytest.mark.slow
def test_a_model_that_fails_on_the_example_is_not_said_to_be_hard_to_capture() -> None:
    model = Calls(lambda x: nn.functional.linear(x, torch.ones(3, 4)) if len(x) > 1 else x)
    expected = (
        r"Calls itself fails on example_inputs, .*test_export.py:\d+: `.*linear.*`: mat1 and mat2 shapes [^.]*$"
    )
    with pytest.raises(CaptureError, match=expected):
        MaseGraph(model, example_inputs=torch.ones(2, 5))


@pytest.mark.slow
def test_a_model_that_fails_in_training_is_fixed_to_evaluation(caplog: pytest.LogCaptureFixture) -> None:
    class InEvaluation(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if self.training and len(x) < 4:
                raise ValueError("too few rows")
            return nn.functional.dropout(x, 0.5, self.training) + len(x)

    x = torch.ones(2, 3)
    graph = MaseGraph(InEvaluation().eval(), example_inputs=x)
    assert graph.model(x).equal(x + 2)
    assert re.search(
        r"InEvaluation fails in training mode on example_inputs, .*: too few rows; .* for evaluation only",
        caplog.text,
    )


@pytest.mark.slow
def test_torch_logs_nothing_about_code_that_depends_on_values(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    monkeypatch.setattr(logging.getLogger("torch.fx.experimental.symbolic_shapes"), "handlers", [handler])

    class Loop(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            while x.sum() > 1e9:
                x = x / 2
            return x

    with pytest.raises(ValueError, match="depends on the values of a tensor"):
        MaseGraph(Loop(), example_inputs={"x": torch.zeros(2, 3)})
    assert records == []


def test_arguments_that_are_not_in_the_example_keep_their_defaults() -> None:
    graph = MaseGraph(Calls(torch.relu), example_inputs=torch.ones(2))
    assert graph.capture == "fx"
    assert [node.target for node in graph.fx_graph.nodes if node.op == "placeholder"] == ["x"]


def test_bad_arguments_are_reported() -> None:
    model = Calls(torch.relu)
    with pytest.raises(ValueError, match=r"capture must be one of auto, fx, export, got 'exprot'; did you mean"):
        MaseGraph(model, capture="exprot")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="capture='export' runs the model: give a batch as example_inputs"):
        MaseGraph(model, capture="export")
    with pytest.raises(ValueError, match=r"Calls.forward has no 'maks'; did you mean 'mask'"):
        MaseGraph(model, example_inputs={"x": torch.ones(2), "maks": torch.ones(2)})
    with pytest.raises(ValueError, match="takes 2 arguments at most"):
        MaseGraph(model, example_inputs=(torch.ones(2),) * 3)
    with pytest.raises(CaptureError, match=r"torch.export may capture it: give a batch as MaseGraph"):
        MaseGraph(Calls(data_dependent))


@pytest.mark.slow
def test_names_that_the_generated_code_cannot_have() -> None:
    inner = nn.Sequential()
    inner.add_module("class", nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"'0.class' contains the Python keyword 'class'; rename it"):
        MaseGraph(nn.Sequential(inner), example_inputs=torch.ones(1, 2), capture="export")


@pytest.mark.slow
def test_classes_that_the_user_keeps_are_one_node() -> None:
    class Parent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: Tensor) -> Tensor:
            assert x.shape[-1] == 4
            y: Tensor = self.block(x)
            return y

    graph = MaseGraph(Parent(), leaf_modules=(Block,), example_inputs=torch.randn(3, 4))
    assert targets(graph) == ["x", "block", "output"]


def test_a_fixed_shape_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Fixed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.arange(int(x.shape[0]) * 1.0) if x.shape[0] != 3 else x.reshape(3, 1)

    with caplog.at_level(logging.WARNING, logger="chop"):
        graph = MaseGraph(Fixed(), example_inputs=torch.ones(3))
    assert graph.model(torch.ones(3)).shape == (3, 1)


class Talkative(nn.Module):
    """Writes to stderr while it is exported."""

    def forward(self, x: Tensor) -> Tensor:
        print("a message of the model", file=sys.stderr)
        return x + 1 if x.shape[-1] > 2 else x


@pytest.mark.slow
def test_what_a_model_prints_during_the_capture_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "chop.ir"):
        MaseGraph(Talkative(), example_inputs={"x": torch.randn(2, 3)}, capture="export")
    assert "a message of the model" in " ".join(caplog.messages)


@pytest.mark.slow
def test_capturing_adds_no_hooks_to_a_model() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=50, output_hidden_states=True, **sizes)
    model = transformers.BertModel(config).eval()
    inputs = {"input_ids": torch.randint(0, 50, (2, 8))}
    graph = MaseGraph(model, example_inputs=inputs)
    assert len(graph.model(**inputs).hidden_states) == 4
    assert len(model(**inputs).hidden_states) == 4
