"""Graphs as packed codes and scales in a safetensors file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from chop.exporting.safetensors_target import write_safetensors
from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.ir.graph.storage.packed import is_packed_graph, pack, read_packed_graph, unpack
from chop.passes.graph import calibrate_transform_pass, export_safetensors_interface_pass, quantize_transform_pass
from chop.runs.weights import load_model
from samples import LAB_CONFIG, Mixed, annotated

VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"scale": "float"},
    {"scale": "float", "granularity": "channel"},
    {"granularity": "group", "group_size": 6},
    {"rounding": "floor"},
    {"scale_rule": "even"},
    {"block_size": [2, 3]},
)
CASES = [
    (name, variant)
    for name, cls in FORMATS.items()
    for variant in VARIANTS
    if set(variant) <= set(cls.__dataclass_fields__) and (name, variant.get("granularity")) != ("fp8", "group")  # type: ignore[attr-defined]
]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(45, 7))


X = torch.randn(20, 1, 5, 5, generator=torch.Generator().manual_seed(1))


def quantized(name: str, variant: dict[str, Any], model: nn.Module | None = None) -> MaseGraph:
    config = {"name": name, **{f"data_in_{key}": value for key, value in variant.items()}}
    graph = annotated(network() if model is None else model, input=X[:4])
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    graph.model.eval()
    return graph


def outputs(graph: MaseGraph) -> Tensor:
    with torch.no_grad():
        y: Tensor = graph.model(X)
    return y


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), CASES, ids=str)
def test_a_graph_that_is_read_back_returns_the_same_bits(
    name: str, variant: dict[str, Any], tmp_path: Path
) -> None:
    graph, file = quantized(name, variant), tmp_path / "model.safetensors"
    write_safetensors(graph, file)
    restored = read_packed_graph(file)
    assert torch.equal(outputs(graph), outputs(restored))
    restored.model.to(torch.float32)  # rounded weights are computed again
    assert torch.equal(outputs(graph), outputs(restored))


def test_codes_are_packed_to_their_width(tmp_path: Path) -> None:
    graph = quantized("integer", {"width": 3, "frac_width": 2})
    write_safetensors(graph, tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors["3.weight.codes"].dtype is torch.uint8
    assert tensors["3.weight.codes"].numel() == -(-45 * 7 * 3 // 8)
    weight = graph.model.state_dict()["3.weight"].flatten()[:2]
    first = [int(code) & 7 for code in (4 * weight).round().clamp(-4, 3)]
    assert int(tensors["3.weight.codes"][0]) & 63 == first[0] | first[1] << 3


@pytest.mark.parametrize("width", [1, 3, 7, 12, 32])
def test_packing_keeps_all_bits(width: int) -> None:
    codes = np.random.default_rng(width).integers(0, 2**width, 37)
    assert (unpack(pack(codes, width), width, 37) == codes).all()


def test_packed_bits_start_at_the_lowest(tmp_path: Path) -> None:
    assert pack(np.array([1, -1, 2]), 3).tolist() == [0b10_111_001, 0b0]


def test_scales_of_microscaling_formats_are_bytes(tmp_path: Path) -> None:
    write_safetensors(quantized("mxfp", {"element": "e2m1"}), tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    assert tensors["3.weight.scale"].dtype is torch.uint8
    assert tensors["scales.e8m0"][127] == 1
    assert tensors["3.weight.codes"].numel() == 7 * 64 // 2  # two blocks of 32 per row


@pytest.mark.slow
def test_calibrated_scales_and_function_nodes_are_kept(tmp_path: Path) -> None:
    graph = annotated(Mixed(), x=torch.randn(4, 6))
    config = {**LAB_CONFIG, "name": "integer"} | {"data_in_scale": "float", "weight_scale": "float"}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"x": torch.randn(16, 6)}]})
    write_safetensors(graph, tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    assert "scale.codes" in tensors, "the parameter of the function node"
    x = torch.randn(9, 6)
    restored = read_packed_graph(tmp_path / "model.safetensors", annotated(Mixed(), x=x))
    with torch.no_grad():
        assert torch.equal(graph.model.eval()(x), restored.model.eval()(x))


def test_a_tied_weight_with_two_formats_is_stored_in_float(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, input: Tensor) -> Tensor:
            y: Tensor = self.second(self.first(input))
            return y

    graph = annotated(Tied(), input=torch.randn(2, 4))
    args = {"by": "name", "first": {"config": LAB_CONFIG}, "second": {"config": {"name": "mxfp"}}}
    graph, _ = quantize_transform_pass(graph, args)
    write_safetensors(graph, tmp_path / "model.safetensors")
    assert load_file(tmp_path / "model.safetensors")["first.weight"].dtype is torch.float32
    x = torch.randn(5, 4)
    restored = read_packed_graph(tmp_path / "model.safetensors")
    with torch.no_grad():
        assert torch.equal(graph.model.eval()(x), restored.model.eval()(x))


def test_stochastic_rounding_is_an_error_that_names_node_format_and_target(tmp_path: Path) -> None:
    graph = quantized("integer", {"rounding": "stochastic"})
    text = r"integer\(8, 4, rounding=stochastic\), which rounds diff"
    message = rf"node '_0' cannot be exported to safetensors: weight has the format {text}"
    with pytest.raises(ValueError, match=message):
        export_safetensors_interface_pass(graph, {"path": tmp_path / "model.safetensors"})
    assert list(tmp_path.iterdir()) == []


def test_the_pass_proves_the_file_and_returns_its_checksum(tmp_path: Path) -> None:
    import hashlib

    batches = [{"input": X}, {"input": X}]
    args = {"path": tmp_path / "a" / "model.safetensors", "input_generator": batches, "num_samples": 30}
    _, info = export_safetensors_interface_pass(quantized("integer", {}), args)
    assert info["proof"] == "30 of 30 outputs equal (read back by chop 0.1.0)"
    content = (tmp_path / "a" / "model.safetensors").read_bytes()
    assert (info["sha256"], info["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))


def test_load_reads_the_file_without_the_model(tmp_path: Path) -> None:
    graph = quantized("mxint", {})
    write_safetensors(graph, tmp_path / "model.safetensors")
    with torch.no_grad():
        assert torch.equal(load_model(tmp_path / "model.safetensors")(X), outputs(graph))


def test_plain_weights_are_not_taken_for_a_graph(tmp_path: Path) -> None:
    save_file({"weight": torch.ones(3)}, tmp_path / "plain.safetensors")
    assert not is_packed_graph(tmp_path / "plain.safetensors")
    assert not is_packed_graph(tmp_path / "missing.safetensors")


def damaged(content: bytes, change: Any) -> bytes:
    """Return the content of a safetensors file with a changed header."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    tensors = json.loads(header["__metadata__"]["tensors"])
    change(header["__metadata__"], tensors)
    header["__metadata__"]["tensors"] = json.dumps(tensors)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + size :]


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata, tensors: tensors["3.weight"].update(width=64),
        lambda metadata, tensors: tensors["3.weight"].update(blocks=[2**40, 2**20]),
        lambda metadata, tensors: tensors["3.weight"].update(shape="x"),
        lambda metadata, tensors: tensors["3.weight"].pop("unit"),
        lambda metadata, tensors: tensors["3.weight"].update(elements="nothing"),
        lambda metadata, tensors: metadata.update(graph="{"),
        lambda metadata, tensors: metadata.update(chop_export="99"),
    ],
)
def test_a_damaged_file_is_an_error_in_one_sentence(change: Any, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_safetensors(quantized("integer", {}), file)
    file.write_bytes(damaged(file.read_bytes(), change))
    with pytest.raises(ValueError, match=r"model\.safetensors") as error:
        read_packed_graph(file)
    assert "\n" not in str(error.value)


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_safetensors(quantized("integer", {}), file)
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(ValueError, match="corrupt"):
        load_model(file, "auto", network())


class WithOptions(nn.Module):
    """A model that takes any keyword, as those of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor, **options: Any) -> Tensor:
        y: Tensor = self.fc(x)
        return y


def test_a_model_that_takes_any_keyword_is_exported(tmp_path: Path) -> None:
    graph, _ = quantize_transform_pass(
        annotated(WithOptions(), x=torch.randn(2, 4)), {"by": "type", "linear": {"config": LAB_CONFIG}}
    )
    export_safetensors_interface_pass(graph, {"path": tmp_path / "model.safetensors"})
    assert is_packed_graph(tmp_path / "model.safetensors")


def test_a_parametrised_weight_is_an_error_that_says_how_to_remove_it(tmp_path: Path) -> None:
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)))
    graph, _ = quantize_transform_pass(
        annotated(model, input=torch.randn(2, 4)), {"by": "type", "linear": {"config": LAB_CONFIG}}
    )
    with pytest.raises(ValueError, match=r"parametrised weight.*remove_parametrizations\(layer, 'weight'\)"):
        write_safetensors(graph, tmp_path / "model.safetensors")
