"""ONNX files: types, opsets, scales, shapes and names, run by onnxruntime and by onnx."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from exporting_samples import IMAGES, TOKENS, Block, cnn, config_of, quantized
from torch import Tensor, nn

from chop.config import ExportOptions
from chop.exporting import export_graph
from chop.ir import MaseGraph
from chop.models import MODELS, get_model
from chop.passes.graph import calibrate_transform_pass, export_onnx_interface_pass, quantize_transform_pass
from samples import LAB_PASS_ARGS, Mixed, annotated, tiny_graph

RUNTIME, REFERENCE = f"onnxruntime {onnxruntime.__version__}", f"onnx reference evaluator {onnx.__version__}"
T = onnx.TensorProto
FORMATS: dict[str, tuple[dict[str, Any], int, int, str]] = {
    "int8": (config_of("integer"), T.INT8, 21, RUNTIME),
    "int6 in INT8": (config_of("integer", width=6), T.INT8, 21, RUNTIME),
    "int12 in INT16": (config_of("integer", width=12), T.INT16, 21, RUNTIME),
    "int20 in INT32": (config_of("integer", width=20), T.INT32, 21, f"{RUNTIME}, session.disable_quant_qdq=1"),
    "int4": (config_of("integer", width=4), T.INT4, 21, RUNTIME),
    "int2": (config_of("integer", width=2, frac_width=1), T.INT2, 25, RUNTIME),
    "uint8": (config_of("integer", is_signed=False), T.UINT8, 21, RUNTIME),
    "uint4": (config_of("integer", width=4, is_signed=False), T.UINT4, 21, RUNTIME),
    "floor": (config_of("integer", rounding="floor"), T.INT8, 21, RUNTIME),
    "away": (config_of("integer", rounding="nearest_away"), T.INT8, 21, RUNTIME),
    "tensor": (config_of("integer", scale="float"), T.INT8, 21, RUNTIME),
    "channel": (config_of("integer", scale="float", granularity="channel"), T.INT8, 21, RUNTIME),
    "row": (config_of("integer", scale="float", granularity="row"), T.INT8, 21, RUNTIME),
    "group": (config_of("integer", width=4, scale="float", granularity="group", group_size=7), T.INT4, 21, RUNTIME),
    "power of two": (config_of("integer", granularity="group"), T.INT8, 24, RUNTIME),
    "e4m3": (config_of("fp8"), T.FLOAT8E4M3FN, 21, RUNTIME),
    "e5m2": (config_of("fp8", element="e5m2", scale="float"), T.FLOAT8E5M2, 21, RUNTIME),
    "mxfp8": (config_of("mxfp"), T.FLOAT8E4M3FN, 24, RUNTIME),
    "mxfp4": (config_of("mxfp", element="e2m1", scale_rule="rceil"), T.FLOAT4E2M1, 24, REFERENCE),
    "mxint8": (config_of("mxint"), T.INT8, 24, RUNTIME),
    "mxint4": (config_of("mxint", width=4), T.INT4, 24, RUNTIME),
    "nvfp4": (config_of("nvfp4"), T.FLOAT4E2M1, 23, REFERENCE),
    "float16": (config_of("float16"), T.FLOAT16, 21, RUNTIME),
    "bfloat16": (config_of("bfloat16"), T.BFLOAT16, 21, RUNTIME),
    "block_fp": (config_of("block_fp"), T.INT8, 24, RUNTIME),
}
"""For each format the type of its weights, the smallest opset that has all types, and the engine."""
ROUNDED_SUMS = {
    "tensor": 1 / 127,
    "channel": 1 / 127,
    "row": 1 / 127,
    "group": 1 / 7,
    "e5m2": 2**-2,
    "nvfp4": 1 / 3,
    "float16": 2**-10,
    "bfloat16": 2**-7,
}
"""Formats whose products have so many bits that sums are rounded in float32, in an order that the CPU chooses.

The largest distance of two neighbouring numbers, relative to the largest: 127 and 7 integers on each side of 0; 2,
10 and 7 bits after the point; 4 and 6 are the largest numbers of E2M1. A sum next to the middle of two numbers is
rounded to either of them.
"""
MAX_STEPS = 2
"""On how many such sums an output may depend."""


def export(graph: MaseGraph, path: Path, *batches: dict[str, Tensor], opset: int | None = None) -> Any:
    return export_graph(graph, path, "onnx", batches, ExportOptions(opset=opset))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_weights_are_stored_in_the_narrow_type_and_outputs_are_equal(name: str, tmp_path: Path) -> None:
    config, data_type, opset, engine = FORMATS[name]
    graph = quantized(cnn(), config, input=IMAGES[:4])
    exported = export(graph, tmp_path / "model.onnx", {"input": IMAGES})
    model = onnx.load(tmp_path / "model.onnx")
    weight = next(each for each in model.graph.initializer if each.name == "5.weight")
    assert (weight.data_type, list(weight.dims)) == (data_type, [7, 45])
    assert (model.opset_import[0].version, model.ir_version <= 13) == (opset, True)
    assert exported.proof.engine == engine
    if name in ROUNDED_SUMS:
        assert exported.proof.largest <= _steps_of_last_layer(graph, ROUNDED_SUMS[name]), exported.proof
    else:
        assert exported.proof.num_equal == 40, exported.proof


def _steps_of_last_layer(graph: MaseGraph, step: float) -> float:
    """Return how much an output changes if `MAX_STEPS` inputs of the last layer are rounded to the next number."""
    last, largest = graph.modules["5"], 0.0

    def note(_: nn.Module, given: tuple[Tensor, ...]) -> None:
        nonlocal largest
        largest = given[0].abs().max().item()

    handle = last.register_forward_pre_hook(note)
    with torch.no_grad():
        graph.model(IMAGES)
    handle.remove()
    return MAX_STEPS * step * largest * last.get_parameter("weight").abs().max().item()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["int8", "channel", "e4m3", "mxfp8", "float"])
def test_a_transformer_block_is_exported(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = None if name == "float" else FORMATS[name][0]
    graph = quantized(Block().eval(), config, tokens=TOKENS[:4])
    exported = export(graph, tmp_path / "block.onnx", {"tokens": TOKENS})
    assert exported.proof.largest < 1e-2
    if name == "float":
        session = onnxruntime.InferenceSession(tmp_path / "block.onnx")
        assert [each.name for each in session.get_inputs()] == ["tokens"]
        assert session.get_inputs()[0].shape == ["batch", 6]
        assert session.run(None, {"tokens": TOKENS[:1].numpy()})[0].shape == (1, 16)


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["fx", "export"])
def test_captured_graphs_are_exported_with_a_free_batch(capture: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass

    model = Block().eval()
    graph = MaseGraph(model, example_inputs={"tokens": TOKENS[:4]}, capture=capture)
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"tokens": TOKENS[:4]}})
    graph, _ = quantize_transform_pass(graph, LAB_PASS_ARGS)
    export(graph, tmp_path / "block.onnx", {"tokens": TOKENS})
    session = onnxruntime.InferenceSession(tmp_path / "block.onnx")
    assert session.run(None, {"tokens": TOKENS[:7].numpy()})[0].shape == (7, 16)


@dataclass
class Scores(dict[str, Tensor]):
    """A dict with attributes, such as the outputs of transformers."""

    scores: Tensor

    def __post_init__(self) -> None:
        self["scores"] = self.scores


class Classifier(nn.Linear):
    def forward(self, x: Tensor) -> Scores:  # type: ignore[override]
        return Scores(scores=super().forward(x))


def test_outputs_may_be_a_class_of_dicts(tmp_path: Path) -> None:
    graph = annotated(Classifier(16, 5), x=torch.randn(4, 16))
    exported = export(graph, tmp_path / "model.onnx", {"x": torch.randn(20, 16)})
    session = onnxruntime.InferenceSession(exported.path)
    assert [output.name for output in session.get_outputs()] == ["scores"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("jsc")])
def test_jet_taggers_are_exported(name: str, tmp_path: Path) -> None:
    from chop.dataset import get_dataset_info

    torch.manual_seed(0)
    model = get_model(name, dataset_info=get_dataset_info("jsc")).eval()
    x = torch.randn(200, 16)
    graph = quantized(model, config_of("integer", width=8, frac_width=5), x=x[:4])
    assert export(graph, tmp_path / "jets.onnx", {"x": x}).proof.largest < 0.1


@pytest.mark.slow
def test_function_nodes_attributes_and_calibrated_scales(tmp_path: Path) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(6, 4), nn.Parameter(torch.rand(4))

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            y = torch.relu(self.linear(x))
            return {"scores": torch.cat([y, self.scale * y + 1], dim=1), "mean": y.mean(1)}

    config = config_of("integer", scale="float") | {"weight_granularity": "channel"}
    graph = quantized(Small(), config, x=torch.randn(4, 6))
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"x": torch.randn(16, 6)}]})
    export(graph, tmp_path / "small.onnx", {"x": torch.randn(50, 6)})
    session = onnxruntime.InferenceSession(tmp_path / "small.onnx")
    assert [each.name for each in session.get_outputs()] == ["scores", "mean"]


def test_formats_are_noted_in_the_file(tmp_path: Path) -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    _, info = export_onnx_interface_pass(graph, {"path": tmp_path / "tiny.onnx"})
    assert info["proof"] == f"8 of 8 outputs equal ({RUNTIME})"
    (entry,) = onnx.load(tmp_path / "tiny.onnx").metadata_props
    assert json.loads(entry.value)["seq_blocks_2"]["weight"] == "integer(8, 4)"


def test_codes_are_those_of_the_format(tmp_path: Path) -> None:
    linear = nn.Linear(3, 1, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[0.26, -9.0, 7.99]]))
    graph = quantized(nn.Sequential(linear), config_of("integer", width=8, frac_width=4), input=torch.randn(2, 3))
    export(graph, tmp_path / "linear.onnx", {"input": torch.randn(2, 3)})
    (weight,) = [each for each in onnx.load(tmp_path / "linear.onnx").graph.initializer if each.name == "0.weight"]
    assert onnx.numpy_helper.to_array(weight).tolist() == [[4, -128, 127]]


def test_activations_saturate_at_the_range_of_the_format(tmp_path: Path) -> None:
    graph = quantized(
        nn.Sequential(nn.ReLU()), config_of("integer", width=6, frac_width=2), input=torch.randn(2, 3)
    )
    export(graph, tmp_path / "relu.onnx", {"input": torch.tensor([[100.0, -100.0, 0.37]])})
    session = onnxruntime.InferenceSession(tmp_path / "relu.onnx")
    found = session.run(None, {"input": np.array([[100.0, -100.0, 0.37]], np.float32)})[0]
    assert found.tolist() == [[7.75, 0.0, 0.25]]


def test_an_op_that_is_not_in_the_op_table_is_named(tmp_path: Path) -> None:
    graph = annotated(Mixed(), x=torch.randn(4, 6))
    with pytest.raises(ValueError, match="node 'sinc' cannot be exported to onnx: 'sinc' is not in the op table"):
        export(graph, tmp_path / "mixed.onnx", {"x": torch.randn(4, 6)})
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_onnx_lacks_names_node_format_and_target(tmp_path: Path) -> None:
    graph = quantized(cnn(), config_of("log"), input=IMAGES[:4])
    with pytest.raises(
        ValueError, match=r"node '_0' cannot be exported to onnx: data_in_0 has the format log\(8, 64\)"
    ):
        export(graph, tmp_path / "model.onnx", {"input": IMAGES})


@pytest.mark.parametrize(
    ("opset", "message"),
    [
        (17, "opset 17 is too old: QuantizeLinear with blocks and INT4 needs opset 21"),
        (24, r"opset 24 is too old: the type INT2 \(node '_0'\) needs opset 25"),
        (27, "opset 27 is too new: opsets up to 26 can be proven"),
    ],
)
def test_the_opset_must_have_the_types(opset: int, message: str, tmp_path: Path) -> None:
    name = "int2" if opset == 24 else "int8"
    graph = quantized(cnn(), FORMATS[name][0], input=IMAGES[:4])
    with pytest.raises(ValueError, match=message):
        export(graph, tmp_path / "model.onnx", {"input": IMAGES}, opset=opset)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_later_opset_can_be_chosen(tmp_path: Path) -> None:
    graph = quantized(cnn(), FORMATS["int8"][0], input=IMAGES[:4])
    export(graph, tmp_path / "model.onnx", {"input": IMAGES}, opset=26)
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 26


@pytest.mark.slow
def test_a_file_that_computes_something_else_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import chop.exporting.onnx_graph.qdq as qdq

    graph = quantized(cnn(), FORMATS["int6 in INT8"][0], input=IMAGES[:4])
    monkeypatch.setattr(qdq, "limits", lambda *_: (-16, 15))  # 5 bits instead of 6
    with pytest.raises(
        ValueError, match=r"computes something else: \d+ of 40 outputs equal .* node '_0' differs by"
    ):
        export(graph, tmp_path / "model.onnx", {"input": 4 * IMAGES})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_engine_is_an_error_with_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    graph = quantized(cnn(), None, input=IMAGES[:4])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "onnxruntime.capi.onnxruntime_pybind11_state", None)
    with pytest.raises(ValueError, match="needs onnxruntime, which is not installed"):
        export(graph, tmp_path / "model.onnx", {"input": IMAGES})
    assert list(tmp_path.iterdir()) == []


def test_outputs_may_be_truth_values_and_indices(tmp_path: Path) -> None:
    class Choice(nn.Module):
        def forward(self, x: Tensor) -> dict[str, Tensor]:
            return {"positive": x > 0, "best": x.argmax(1), "values": x.exp()}

    exported = export(quantized(Choice(), None, x=torch.randn(4, 3)), tmp_path / "m.onnx", {"x": torch.randn(9, 3)})
    assert exported.proof.num_outputs == 9


def _with_large_products() -> tuple[MaseGraph, dict[str, Tensor]]:
    """Return a linear layer, and inputs for which pairs of 8-bit products exceed 16 bits."""
    linear = nn.Linear(64, 16, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.full((16, 64), 127 / 128))
    config = config_of("integer", frac_width=7) | {"data_out_name": "integer", "data_out_frac_width": 0}
    x = torch.full((4, 64), 0.99) - torch.rand(4, 64) / 50
    return quantized(nn.Sequential(linear), config, input=x), {"input": x}


@pytest.mark.slow
def test_sums_that_saturate_on_some_processors_are_found(tmp_path: Path) -> None:
    graph, batch = _with_large_products()
    exported = export(graph, tmp_path / "model.onnx", batch)
    option = "session.x64quantprecision=1"
    assert exported.proof.num_equal == 4
    assert exported.proof.engine in (RUNTIME, f"{RUNTIME}, {option}")
    options = onnxruntime.SessionOptions()
    found = onnxruntime.InferenceSession(tmp_path / "model.onnx", options).run(
        None, {"input": batch["input"].numpy()}
    )
    with torch.no_grad():
        is_equal = np.array_equal(found[0], graph.model(batch["input"]).numpy())
    assert is_equal == (exported.proof.engine == RUNTIME)


class Residual(nn.Module):
    """Two convolutions with a residual connection, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.relu1, self.relu2, self.linear = nn.ReLU(), nn.ReLU(), nn.Linear(256, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.first(x))
        result: Tensor = self.linear(self.relu2(self.second(y) + y).flatten(1))
        return result


@pytest.mark.slow
def test_onnxruntime_fuses_all_layers_of_an_int8_network(tmp_path: Path) -> None:
    torch.manual_seed(0)
    integer = {"name": "integer", "data_in_name": "float"}
    unsigned = {"config": {**integer, "data_out_name": "integer", "data_out_is_signed": False}}
    configs = {
        "first": {"config": {"name": "integer"}},
        "second": {"config": {**integer, "data_out_name": "integer"}},
        "relu1": unsigned,
        "relu2": unsigned,
        "linear": {"config": {"name": "integer", "data_in_is_signed": False}},
    }
    graph, _ = quantize_transform_pass(annotated(Residual().eval(), x=IMAGES[:2]), {"by": "name", **configs})
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"x": IMAGES}]})
    exported = export(graph, tmp_path / "model.onnx", {"x": IMAGES})
    assert exported.proof.num_equal == 40
    constants = {each.name: each.data_type for each in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert [constants[name] for name in ("first.weight", "first.bias.int32")] == [T.INT8, T.INT32]
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    onnxruntime.InferenceSession(tmp_path / "model.onnx", options)
    found = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert (found.count("QLinearConv"), found.count("QLinearAdd"), found.count("QGemm")) == (2, 1, 1)
    assert not {"Conv", "Add", "Gemm", "Relu"} & set(found)


@pytest.mark.slow
def test_a_difference_in_a_later_batch_is_not_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chop.exporting.onnx_target import OnnxEngine

    graph = quantized(cnn(), FORMATS["int8"][0], input=IMAGES[:4])
    run, run_layers = OnnxEngine.run, OnnxEngine.run_layers

    def wrong(self: OnnxEngine, inputs: Any) -> Any:
        return [each + (inputs["input"].flatten(1)[:, :1] == IMAGES[20, 0, 0, 0]) for each in run(self, inputs)]

    def wrong_layers(self: OnnxEngine, inputs: Any, results: Any) -> Any:
        found = run_layers(self, inputs, results)
        found["_5"] = found["_5"] + (inputs["input"].flatten(1)[:, :1] == IMAGES[20, 0, 0, 0])
        return found

    monkeypatch.setattr(OnnxEngine, "run", wrong)
    monkeypatch.setattr(OnnxEngine, "run_layers", wrong_layers)
    with pytest.raises(ValueError, match=r"39 of 40 outputs equal .* node '_5' differs by 1, more than 0"):
        export(graph, tmp_path / "model.onnx", {"input": IMAGES[:20]}, {"input": IMAGES[20:]})
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_exceeds_a_protocol_buffer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import chop.exporting.onnx_file as onnx_file

    graph = quantized(cnn(), FORMATS["int8"][0], input=IMAGES[:4])
    monkeypatch.setattr(onnx_file, "MAX_BYTES", 300)
    with pytest.raises(
        ValueError, match=r"the parameters have \d+ bytes, but an ONNX file has less than 300; use a"
    ):
        export(graph, tmp_path / "model.onnx", {"input": IMAGES})
    assert list(tmp_path.iterdir()) == []


def test_a_range_may_end_at_the_batch_size(tmp_path: Path) -> None:
    class Numbered(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.arange(x.shape[0]).unsqueeze(1)

    export(quantized(Numbered(), None, x=torch.randn(4, 3)), tmp_path / "m.onnx", {"x": torch.randn(9, 3)})
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    assert session.run(None, {"x": np.zeros((5, 3), np.float32)})[0][:, 0].tolist() == [0, 1, 2, 3, 4]
