"""Models in ONNX and QONNX files, with the formats of their quantisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from chop import cli
from chop.exporting import export_graph
from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.models import get_model
from chop.models.onnx_reader.read import read_onnx
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    calibrate_transform_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

RANDOM = np.random.default_rng(0)
IMAGES = torch.randn(20, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def write(
    path: Path,
    nodes: list[Any],
    constants: dict[str, Any],
    shape: list[Any],
    opset: int = 21,
    domain: str = "",
) -> Path:
    """Write a model from `x` to `y`."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    graph.output[0].type.tensor_type.shape.dim.add().dim_param = "batch"
    graph.output[0].type.tensor_type.shape.dim.add().dim_param = "outputs"
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


def small_cnn(path: Path) -> Path:
    """Write a residual network with batch norm, pooling and INT8 quantisers, as other tools do."""

    def real(*shape: int) -> NDArray[np.float32]:
        return RANDOM.standard_normal(shape).astype(np.float32)

    constants: dict[str, Any] = {
        "w1": RANDOM.integers(-128, 128, (4, 1, 3, 3)).astype(np.int8),
        "w1_scale": (0.01 + RANDOM.random(4) / 50).astype(np.float32),
        "w1_zero": np.zeros(4, np.int8),
        "b1": real(4),
        "gamma": real(4),
        "beta": real(4),
        "mean": real(4),
        "variance": RANDOM.random(4).astype(np.float32) + 0.5,
        "s": np.float32(0.043),
        "power": np.float32(0.0625),
        "zero": np.int8(0),
        "w2": RANDOM.integers(-128, 128, (64, 5)).astype(np.int8),
        "w2_scale": np.float32(0.011),
    }
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "zero"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "zero"], ["xd"]),
        node("DequantizeLinear", ["w1", "w1_scale", "w1_zero"], ["w1d"], axis=0),
        node("Conv", ["xd", "w1d", "b1"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("QuantizeLinear", ["r", "power", "zero"], ["rq"]),
        node("DequantizeLinear", ["rq", "power", "zero"], ["rd"]),
        node("Add", ["rd", "n"], ["a"]),
        node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("QuantizeLinear", ["p", "s", "zero"], ["pq"]),
        node("DequantizeLinear", ["pq", "s", "zero"], ["pd"]),
        node("Flatten", ["pd"], ["f"]),
        node("DequantizeLinear", ["w2", "w2_scale", "zero"], ["w2d"]),
        node("MatMul", ["f", "w2d"], ["m"]),
        node("Add", ["m", "last"], ["y"]),
    ]
    constants["last"] = real(5)
    return write(path, nodes, constants, [1, 8, 8])


def test_an_int8_network_of_another_tool_computes_what_onnxruntime_computes(tmp_path: Path) -> None:
    path = small_cnn(tmp_path / "net.onnx")
    model = get_model(str(path))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(path, options).run(None, {"x": IMAGES.numpy()})[0]
    with torch.no_grad():
        found: Tensor = model(IMAGES)
    assert np.abs(found.numpy() - expected).max() <= 1e-5 * np.abs(expected).max()
    layers = {name: layer for name, layer in model.named_children() if isinstance(layer, QuantizedLayer)}
    assert type(layers["c"]).__name__ == "Conv2dInteger"
    per_channel = Integer(8, scale="float", granularity="channel", channel_dim=0, block_dim=1)
    assert layers["c"].formats["weight"] == per_channel
    assert layers["m"].formats["data_in_0"].width == 8


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "qonnx"])
def test_what_was_exported_is_read_back_with_its_formats(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(27, 4)]
    net = nn.Sequential(*layers)
    graph, _ = init_metadata_analysis_pass(MaseGraph(net.eval()), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": IMAGES[:2]}})
    config = {"name": "integer", "data_in_width": 6, "weight_scale": "float", "weight_granularity": "channel"}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"input": IMAGES}]})
    path = tmp_path / "net.onnx"
    export_graph(graph, path, target, [{"input": IMAGES}])
    model = get_model(str(path))
    with torch.no_grad():
        assert torch.equal(model(IMAGES), graph.model(IMAGES))
    linear = [each for each in model.children() if isinstance(each, QuantizedLayer)][-1]
    mine = graph.model.get_submodule("5")
    assert isinstance(mine, QuantizedLayer)
    assert linear.formats["data_in_0"] == mine.formats["data_in_0"]


def brevitas_model(path: Path) -> Path:
    """Write what the QONNX export of Brevitas writes: float weights, and Quant nodes of its domain."""
    constants: dict[str, Any] = {
        "w": RANDOM.standard_normal((3, 6)).astype(np.float32),
        "ws": np.float32(0.02),
        "s": np.float32(0.05),
        "zero": np.float32(0),
        "four": np.float32(4),
        "eight": np.float32(8),
    }
    domain = "onnx.brevitas"
    quant: dict[str, Any] = {"signed": 1, "rounding_mode": "ROUND", "domain": domain}
    nodes = [
        helper.make_node("Quant", ["x", "s", "zero", "eight"], ["xq"], narrow=0, **quant),
        helper.make_node("Quant", ["w", "ws", "zero", "four"], ["wq"], narrow=1, **quant),
        helper.make_node("Transpose", ["wq"], ["wt"], perm=[1, 0]),
        helper.make_node("MatMul", ["xq", "wt"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Quant", ["r", "s", "zero", "four"], ["y"], narrow=0, **{**quant, "signed": 0}),
    ]
    return write(path, nodes, constants, [6], domain=domain)


def test_a_model_of_brevitas_is_read(tmp_path: Path) -> None:
    model = get_model(str(brevitas_model(tmp_path / "net.onnx")))
    x = torch.randn(50, 6)
    constants = {name: value.detach() for name, value in model.state_dict().items()}
    with torch.no_grad():
        found = model(x)
    weight = next(value for name, value in constants.items() if name.endswith("weight"))
    rounded = torch.round(weight / 0.02).clamp(-7, 7) * torch.tensor(0.02)
    data = torch.round(x / 0.05).clamp(-128, 127) * torch.tensor(0.05)
    expected = torch.round(torch.relu(data @ rounded.t()) / 0.05).clamp(0, 15) * torch.tensor(0.05)
    assert (found - expected).abs().max() <= 0.0501
    assert ((found - expected).abs() > 1e-6).float().mean() < 0.02  # quotients next to a half


def test_integers_that_are_narrower_than_their_type_are_read(tmp_path: Path) -> None:
    """Brevitas writes 4-bit weights and activations as INT8 with Clip before DequantizeLinear."""
    constants: dict[str, Any] = {
        "w": RANDOM.integers(-7, 8, (3, 6)).astype(np.int8),
        "ws": (0.01 + RANDOM.random(3) / 50).astype(np.float32),
        "wz": np.zeros(3, np.int8),
        "s": np.float32(0.05),
        "zero": np.int8(0),
        "uzero": np.uint8(0),
        "low": np.int8(-7),
        "high": np.int8(7),
        "ulow": np.uint8(0),
        "uhigh": np.uint8(15),
    }
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "zero"], ["xq"]),
        node("Clip", ["xq", "low", "high"], ["xc"]),
        node("DequantizeLinear", ["xc", "s", "zero"], ["xd"]),
        node("Clip", ["w", "low", "high"], ["wc"]),
        node("DequantizeLinear", ["wc", "ws", "wz"], ["wd"], axis=0),
        node("Gemm", ["xd", "wd"], ["m"], transB=1),
        node("Relu", ["m"], ["r"]),
        node("QuantizeLinear", ["r", "s", "uzero"], ["rq"]),
        node("Clip", ["rq", "ulow", "uhigh"], ["rc"]),
        node("DequantizeLinear", ["rc", "s", "uzero"], ["y"]),
    ]
    path = write(tmp_path / "net.onnx", nodes, constants, [6])
    model, x = get_model(str(path)), torch.randn(50, 6)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(path, options).run(None, {"x": x.numpy()})[0]
    with torch.no_grad():
        found = model(x).numpy()
    assert (np.abs(found - expected) > 1e-6).mean() < 0.02  # quotients next to a half
    layers = [layer.formats for layer in model.children() if isinstance(layer, QuantizedLayer)]
    assert [formats["data_in_0"].width for formats in layers] == [4, 4]
    assert (layers[0]["weight"].width, layers[1]["data_in_0"].is_signed) == (4, False)  # type: ignore[attr-defined]


def test_real_constants_are_clipped_between_real_bounds(tmp_path: Path) -> None:
    constants = {
        "w": np.array([[-2.0, -0.3], [0.4, 3.0]], np.float32),
        "low": np.float32(-0.5),
        "high": np.float32(0.5),
    }
    nodes = [helper.make_node("Clip", ["w", "low", "high"], ["c"]), helper.make_node("MatMul", ["x", "c"], ["y"])]
    model = get_model(str(write(tmp_path / "net.onnx", nodes, constants, [2])))
    with torch.no_grad():
        assert model(torch.eye(2)).tolist() == torch.tensor([[-0.5, -0.3], [0.4, 0.5]]).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zero": np.int8(3)}, "number formats have no zero point other than 0"),
        ({"s": np.float32(-1)}, "a scale is not positive"),
    ],
)
def test_what_formats_cannot_express_is_an_error(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "zero"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    path = write(tmp_path / "net.onnx", nodes, {"s": np.float32(0.1), "zero": np.int8(0), **change}, [4])
    with pytest.raises(ValueError, match=rf"node 'q' \(QuantizeLinear\) cannot be read: {message}"):
        read_onnx(path)


def test_an_unknown_op_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", [helper.make_node("Sin", ["x"], ["y"])], {}, [4])
    with pytest.raises(ValueError, match=r"node 'y' has the op 'Sin'; "):
        read_onnx(path)


@pytest.mark.parametrize("content", [b"", b"not a protobuf", b"\x08\x0a"])
def test_a_damaged_file_is_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert cli.main(["transform", str(path), "toy_tiny", "--project-dir", str(tmp_path / "runs")]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "is corrupt, or not an ONNX file" in error
    assert not (tmp_path / "runs").exists()


def test_an_oversized_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)  # sparse
    with pytest.raises(ValueError, match="ONNX files have at most"):
        read_onnx(path)


def computed(path: Path, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the model that was read computes, and what onnxruntime computes."""
    model, (name,) = read_onnx(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    with torch.no_grad():
        return model(**{name: x}), torch.from_numpy(expected)


def renamed(path: Path, **names: str) -> Path:
    """Give other names to the tensors of a file."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.input[:] = [names.get(each, each) for each in node.input]
        node.output[:] = [names.get(each, each) for each in node.output]
    for info in (*model.graph.input, *model.graph.output):
        info.name = names.get(info.name, info.name)
    onnx.save(model, path)
    return path


ROWS = torch.linspace(-3, 3, 8).reshape(2, 4)


@pytest.mark.parametrize(
    "name", ["for", "self", "torch", "forward", "training", "None", "é", "x y", "1", "'", ")", "_"]
)
def test_inputs_and_layers_may_have_any_name(name: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    path = renamed(write(tmp_path / "a.onnx", nodes, {}, [4]), x=name, r=f"{name}.")
    found, expected = computed(path, ROWS)
    assert found.equal(expected)


def test_layers_with_similar_names_keep_their_weights(tmp_path: Path) -> None:
    weights = {f"w{i}": RANDOM.standard_normal((4, 4)).astype(np.float32) for i in range(3)}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a.b"]),
        helper.make_node("MatMul", ["a.b", "w1"], ["a_b"]),
        helper.make_node("MatMul", ["a_b", "w2"], ["a_b_2"]),
        helper.make_node("Relu", ["a_b_2"], ["y"]),
    ]
    found, expected = computed(write(tmp_path / "a.onnx", nodes, weights, [4]), ROWS)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (9, helper.make_node("Clip", ["x"], ["y"], min=-1.0, max=2.0)),
        (9, helper.make_node("Softmax", ["x"], ["y"])),
        (11, helper.make_node("ReduceMean", ["x"], ["y"], axes=[1])),
        (21, helper.make_node("Dropout", ["x"], ["y"], seed=3)),
    ],
)
def test_ops_have_the_meaning_of_their_opset(opset: int, node: Any, tmp_path: Path) -> None:
    found, expected = computed(write(tmp_path / "a.onnx", [node], {}, [4], opset), ROWS)
    torch.testing.assert_close(found, expected)


def external(name: str) -> Any:
    """Return a constant whose values are in another file."""
    proto = numpy_helper.from_array(np.ones(4, np.float32), "c")
    proto.ClearField("raw_data")
    proto.data_location = TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=name)
    return proto


def typed(kind: int, values: list[Any]) -> Any:
    return helper.make_tensor("c", kind, [len(values)], values)


make = helper.make_node
SPARSE = helper.make_sparse_tensor(typed(TensorProto.FLOAT, [1.0]), helper.make_tensor("", 7, [1], [0]), [4])


@pytest.mark.parametrize(
    ("shape", "nodes", "opset", "message"),
    [
        ([2**40], [make("Relu", ["x"], ["y"])], 21, r"'.*': input 'x' has 1,099,511,627,776 values per sample; "),
        ([-1], [make("Relu", ["x"], ["y"])], 21, "'.*': input 'x' has sizes that are not given"),
        ([4], [make("Relu", ["x"], ["y"])], 8, "'.*' has opset 8; 9 is the oldest one that is read"),
        ([4], [make("Relu", ["x"], ["y"])], 2**40, "'.*' is corrupt, or not an ONNX file: "),
        ([4], [make("Relu", ["z"], ["y"])], 21, "'.*' is corrupt, or not an ONNX file: "),
        ([4], [make("Relu", ["y"], ["z"]), make("Relu", ["z"], ["y"])], 21, "'.*' is corrupt, or not an ONNX file"),
        (
            [4, 4],
            [make("Softmax", ["x"], ["y"])],
            11,
            r"'.*': node 'y' \(Softmax\) cannot be read: before opset 13",
        ),
        (
            [8, 8],
            [make("AveragePool", ["x"], ["y"], kernel_shape=[2], dilations=[2])],
            21,
            "'.*': node 'y' .* dilation",
        ),
        (
            [4],
            [make("Selu", ["x"], ["y"], alpha=9.0)],
            21,
            "'.*': node 'y' .* attribute 'alpha' is read only with the",
        ),
        ([4], [make("Relu", ["x"], ["y"], domain="mine")], 21, "'.*': node 'y' has the op 'Relu' of 'mine', whose"),
        (
            [4],
            [make("Dropout", ["x"], ["d", "m"]), make("Not", ["m"], ["y"])],
            21,
            "'.*': node 'y' has the op 'Not'",
        ),
        (
            [4],
            [make("Dropout", ["x"], ["d", "m"]), make("Add", ["m", "x"], ["y"])],
            21,
            r"'.*': node 'y' \(Add\) cannot be read: 'm' is not the first result of a node",
        ),
        *(
            ([4], [make("Constant", [], ["c"], **given), make("Add", ["x", "c"], ["y"])], 21, f"'.*{message}")
            for given, message in (
                ({"value": external("secret")}, r"node 'c' \(Constant\) .* is in another file"),
                ({"value": external("/etc/passwd")}, ".* should be a relative path"),
                (
                    {"value": typed(TensorProto.COMPLEX64, [1j])},
                    "node 'c' .* are neither real numbers nor integers",
                ),
                ({"value": typed(TensorProto.STRING, [b"1"])}, "node 'c' .* are neither real numbers nor integers"),
                (
                    {"value": typed(TensorProto.UINT64, [2**63])},
                    "node 'c' .* are neither real numbers nor integers",
                ),
                ({"sparse_value": SPARSE}, "node 'c' .* cannot be read: "),
                ({"value_string": "a"}, "node 'c' .* cannot be read: "),
            )
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    shape: list[Any], nodes: list[Any], opset: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").write_bytes(bytes(16))
    with pytest.raises(ValueError, match=message) as error:
        read_onnx(write(tmp_path / "a.onnx", nodes, {}, shape, opset, "mine"))
    assert "\n" not in str(error.value)


def test_a_scale_that_changes_between_two_quantisers_is_an_error(tmp_path: Path) -> None:
    nodes = [make("QuantizeLinear", ["x", "s", "z"], ["q"]), make("DequantizeLinear", ["q", "t", "z"], ["y"])]
    constants = {"s": np.float32(0.5), "t": np.float32(0.25), "z": np.int8(0)}
    with pytest.raises(ValueError, match="its scale is not that of the QuantizeLinear before it"):
        read_onnx(write(tmp_path / "a.onnx", nodes, constants, [4]))
