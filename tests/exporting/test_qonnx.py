"""QONNX files: IntQuant and FloatQuant, run by the executor of qonnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from exporting_samples import IMAGES, cnn, config_of, quantized

from chop.exporting import export_graph
from chop.passes.graph import calibrate_transform_pass, export_qonnx_interface_pass

FORMATS: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "int8": (config_of("integer"), "IntQuant", {"signed": 1, "narrow": 0, "rounding_mode": b"ROUND"}),
    "int3": (config_of("integer", width=3), "IntQuant", {"signed": 1, "rounding_mode": b"ROUND"}),
    "uint5": (config_of("integer", width=5, is_signed=False), "IntQuant", {"signed": 0, "narrow": 0}),
    "away": (config_of("integer", rounding="nearest_away"), "IntQuant", {"rounding_mode": b"HALF_UP"}),
    "floor": (config_of("integer", rounding="floor"), "IntQuant", {"rounding_mode": b"FLOOR"}),
    "towards zero": (config_of("integer", rounding="towards_zero"), "IntQuant", {"rounding_mode": b"DOWN"}),
    "fp8": (config_of("fp8"), "FloatQuant", {"has_inf": 0, "saturation": 1}),
    "minifloat": (config_of("minifloat_ieee", width=6, exponent_width=3), "FloatQuant", {"has_subnormal": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_quantisers_say_what_the_format_is_and_outputs_are_equal(name: str, tmp_path: Path) -> None:
    config, op_type, attributes = FORMATS[name]
    graph = quantized(cnn(), config, input=IMAGES[:4])
    exported = export_graph(graph, tmp_path / "model.onnx", "qonnx", [{"input": IMAGES[:8]}])
    assert str(exported.proof) == "8 of 8 outputs equal (qonnx 1.0.0)"
    model = onnx.load(tmp_path / "model.onnx")
    quantiser = next(node for node in model.graph.node if node.domain)
    assert (quantiser.op_type, quantiser.domain) == (op_type, "qonnx.custom_op.general")
    found = {each.name: onnx.helper.get_attribute_value(each) for each in quantiser.attribute}
    assert attributes.items() <= found.items()


@pytest.mark.slow
def test_weights_have_a_scale_per_channel(tmp_path: Path) -> None:
    config = config_of("integer", scale="float") | {"weight_granularity": "channel"}
    graph = quantized(cnn(), config, input=IMAGES[:4])
    graph, _ = calibrate_transform_pass(graph, {"input_generator": [{"input": IMAGES}]})
    _, info = export_qonnx_interface_pass(graph, {"path": tmp_path / "model.onnx", "num_samples": 8})
    assert info["engine"] == "qonnx 1.0.0"
    constants = {each.name: each for each in onnx.load(tmp_path / "model.onnx").graph.initializer}
    assert list(constants["5.weight.scale"].dims) == [7, 1]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (config_of("integer", scale="float"), "whose scale is computed from the values of each call"),
        (config_of("mxfp"), "whose scale is computed from the values of each call"),
        (config_of("log"), "for which QONNX has no quantiser"),
    ],
)
def test_what_qonnx_lacks_is_an_error(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    graph = quantized(cnn(), config, input=IMAGES[:4])
    with pytest.raises(
        ValueError, match=f"node '_0' cannot be exported to qonnx: data_in_0 has the format .*{message}"
    ):
        export_graph(graph, tmp_path / "model.onnx", "qonnx", [{"input": torch.zeros(1, 1, 8, 8)}])
    assert list(tmp_path.iterdir()) == []
