"""Presets, wherever a config of formats can be given."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import chop
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP
from chop.info import describe
from chop.nn.quantized import PRESETS, QuantConfig, register_preset
from chop.passes.graph import quantize_transform_pass
from chop.passes.module import quantize_module_transform_pass
from chop.toml import write_toml
from samples import Tiny, annotated


def formats_of(spec: str) -> dict[str, str]:
    config = QuantConfig.read(spec, "here")
    assert config is not None
    return {role: str(number_format) for role, number_format in config.formats.items()}


def test_the_formats_of_presets() -> None:
    int4 = Integer(4, scale="float", granularity="group", group_size=128)
    row = Integer(8, scale="float", granularity="row")
    assert formats_of("int4") == {"data_in": "float(32)", "weight": str(int4), "bias": "float(32)"}
    assert formats_of("w4a8") == {"data_in": str(row), "weight": str(int4), "bias": "float(32)"}
    assert formats_of("mxfp6") == dict.fromkeys(("data_in", "weight"), str(MXFP("e2m3"))) | {"bias": "float(32)"}
    assert formats_of("fp8")["weight"] == str(FP8(scale="float", granularity="channel"))
    assert formats_of("fp8()")["weight"] == str(FP8())  # with brackets, the format of that name


def test_convolutions_have_no_scales_per_row_of_pixels() -> None:
    model = nn.Sequential(nn.Conv1d(2, 2, 1), nn.Linear(4, 4))
    quantize_module_transform_pass(model, "int8-dynamic")
    shown = [str(layer.formats["data_in_0"]) for layer in model]  # type: ignore[index]
    assert shown == ["integer(8, scale=float)", "integer(8, scale=float, granularity=row)"]


def test_a_pass_takes_a_preset_for_layers_and_by_op() -> None:
    x = torch.randn(4, 16)
    graph, info = quantize_transform_pass(annotated(Tiny(), x=x), "nvfp4")
    linear = [meta.node.name for meta in graph.metas() if meta.mase_op == "linear"]
    assert info["quantized"] == linear
    by_op = {"by": "type", "layers": {"config": "w4a16"}, "relu": {"config": "mxfp8"}}
    graph, info = quantize_transform_pass(annotated(Tiny(), x=x), by_op)
    kinds = {meta.mase_op: str(meta.args["data_in_0"].format) for meta in graph.metas() if meta.quantized}
    assert kinds == {"linear": "float(32)", "relu": "mxfp(8, 32)"}


def test_a_run_takes_a_preset_in_its_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"passes": {"quantize": {"by": "type", "layers": {"config": "w8a16"}}}}
    Path("run.toml").write_text(write_toml(config))
    run = chop.transform("toy", "toy_tiny", config="run.toml")
    assert 8 < run.summary["cost"]["after"]["quantized_weight_bits"] < 32


def test_users_add_presets_of_their_own() -> None:
    name = "w3a8-of-this-test"
    register_preset(name, {"name": "integer", "data_in_width": 8, "weight_width": 3}, "three bits")
    try:
        assert formats_of(name)["weight"] == "integer(3, 1)"
        assert "three bits" in describe("presets")
    finally:
        PRESETS._entries.pop(name)


def test_the_page_of_a_preset_has_its_config_to_copy() -> None:
    assert '[passes.quantize.layers.config]\nname = "nvfp4"\nbias_name = "float"' in describe("presets", "nvfp4")
