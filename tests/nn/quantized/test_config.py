"""Reading quantisation configs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import nn

from chop.formats import FORMATS, parameters
from chop.formats.block_fp import BlockFP
from chop.formats.block_minifloat import BlockMinifloat
from chop.formats.integer import Integer
from chop.formats.log import Log
from chop.formats.minifloat import MinifloatIEEE
from chop.nn.quantized import QuantConfig, QuantizedLayer
from chop.passes.graph import quantize_transform_pass
from chop.registry import UnknownNameError
from samples import LAB_CONFIG, annotated


def read(**config: Any) -> QuantConfig:
    found = QuantConfig.read(config, "here")
    assert found is not None
    return found


def test_each_role_has_its_own_parameters() -> None:
    config = read(**{**LAB_CONFIG, "weight_width": 6, "bias_frac_width": 2})
    assert config.formats == {"data_in": Integer(8, 4), "weight": Integer(6, 4), "bias": Integer(8, 2)}


@pytest.mark.parametrize("name", [None, "NA"])
def test_an_unset_name_means_not_quantised(name: str | None) -> None:
    assert QuantConfig.read({"name": name}, "here") is None


def test_missing_keys_are_taken_from_data_in() -> None:
    config = read(name="integer", data_in_width=6, data_in_frac_width=3)
    assert config.formats["weight"] == Integer(6, 3)
    assert config.formats["bias"] == Integer(6, 3)


def test_fraction_bits_that_are_not_given_follow_the_width() -> None:
    assert read(name="integer", weight_width=3).formats["weight"] == Integer(3, 1)
    config = read(name="integer", data_in_width=8, data_in_frac_width=4, weight_width=3)
    assert config.formats["weight"] == Integer(3, 1)
    assert "weight_frac_width" not in config.inherited["weight"]


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "float"])
def test_widths_and_kinds_are_taken_from_data_in_but_not_signs_dimensions_and_elements(name: str) -> None:
    others: dict[str, Any] = {
        **{"width": 6, "exponent_width": 3, "frac_width": 1, "exponent_bias": 5},
        **{"exponent_bias_width": 4, "is_signed": False, "rounding": "floor", "scale": "float", "group_size": 8},
        **{"granularity": "row", "block_size": 4, "scale_rule": "ceil", "scaling": False, "stochastic": True},
        **{
            "threshold": 0.5,
            "widths": (6, 5),
            "frac_widths": (1, 2),
            "shape": (2,),
            "channel_dim": 0,
            "block_dim": 0,
        },
        "element": {"fp8": "e5m2"}.get(name, "e2m1"),
    }
    of_operand = {"is_signed", "widths", "frac_widths", "shape", "channel_dim", "block_dim"}
    given = {field.name: others[field.name] for field in parameters(FORMATS[name])}
    config = read(name=name, **{f"data_in_{key}": value for key, value in given.items()})
    kept = {key: value for key, value in given.items() if key not in of_operand}
    assert config.formats["data_in"] == FORMATS[name](**given)
    assert config.formats["weight"] == config.formats["bias"] == FORMATS[name](**kept)


def test_the_range_follows_the_width_that_is_given() -> None:
    config = read(name="log", data_in_width=8, data_in_exponent_bias=100, weight_width=4)
    assert config.formats["weight"] == Log(4)  # with the bias of the data, every weight would be at most 2**-92
    assert config.formats["bias"] == Log(8, 100)
    config = read(name="minifloat_ieee", data_in_exponent_bias=20, weight_exponent_width=5, bias_width=6)
    assert config.formats["weight"] == MinifloatIEEE(8, 5, 15)
    assert config.formats["bias"] == MinifloatIEEE(6, 4, 20)


@pytest.mark.parametrize("scale", ["power_of_two", "float", "learned"])
def test_unsigned_data_leaves_the_weights_signed(scale: str) -> None:
    config = {"name": "integer", "data_in_width": 8, "data_in_is_signed": False, "data_in_scale": scale}
    graph = annotated(nn.Sequential(nn.Linear(4, 4)), input=torch.rand(2, 4))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    layer = graph.model.get_submodule("0")
    assert isinstance(layer, QuantizedLayer)
    with torch.no_grad():
        for name in ("weight", "bias"):
            found = layer.quantized(name)
            assert found is not None
            assert found.min() < 0 < found.max()
    assert "data_in_0=integer(8, " in str(layer)
    assert str(layer).count("is_signed=False") == 1


def test_missing_keys_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    graph = annotated(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), input=torch.randn(2, 4))
    some = {"config": {"name": "integer", "data_in_width": 6, "weight_width": 4}}
    with caplog.at_level(logging.INFO, logger="chop"):
        quantize_transform_pass(graph, {"by": "type", "linear": some, "relu": some})
    (record,) = [each for each in caplog.records if each.levelno == logging.INFO]
    assert record.getMessage() == "quantize linear: bias_width not given; the parameters of data_in are used"


def test_na_is_the_default_of_the_format() -> None:
    assert read(name="integer", weight_width=6, weight_frac_width="NA").formats["weight"] == Integer(6, 3)


def test_a_role_may_have_a_different_format() -> None:
    config = read(name="integer", weight_name="block_fp", weight_block_size=[1, 16], data_in_width=6)
    assert config.formats["weight"] == BlockFP(block_size=(1, 16))
    assert config.formats["data_in"] == Integer(6)


def test_dimensions_are_not_taken_from_data_in() -> None:
    config = read(name="block_fp", data_in_block_dim=0, data_in_width=4)
    assert config.formats["weight"] == BlockFP(4)


def test_the_result_is_rounded_only_with_data_out_keys() -> None:
    assert "data_out" not in read(name="integer").formats
    assert read(name="integer", data_out_width=5).formats["data_out"] == Integer(5)
    assert read(name="integer", data_out_name="float").formats["data_out"].name == "float"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"name": "integer", "weight_widht": 4},
            "format 'integer' has no parameter 'weight_widht'; did you mean 'weight_width'?",
        ),
        ({"name": "binary", "weight_width": 4}, "format 'binary' has no parameter 'weight_width'"),
        ({"name": "integer", "weight_width": "4"}, "weight: 'width' must be int, got '4' (str)"),
        ({"name": "integer", "weight_width": 99}, "weight: width must be from 1 to 32, got 99"),
        ({"weight_width": 4}, "a config needs 'name', the name of a format"),
    ],
)
def test_errors_name_the_wrong_key(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is checked below
        QuantConfig.read(config, "here")
    assert str(error.value).startswith("here: ")
    assert message in str(error.value)


def test_an_unknown_format_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown format 'integr'; did you mean 'integer'"):
        QuantConfig.read({"name": "integr"}, "here")


def test_common_keys_of_existing_configs_are_accepted() -> None:
    old = {
        "data_in_width": 8,
        "data_in_exponent_width": 4,
        "data_in_exponent_bias": "NA",
        "weight_exponent_width": 3,
    }
    assert read(name="minifloat_ieee", **old).formats["weight"] == MinifloatIEEE(8, 3)
    blocks = read(name="block_minifloat", weight_exponent_bias_width=6, weight_block_size=[1, 16])
    assert blocks.formats["weight"] == BlockMinifloat(exponent_bias_width=6, block_size=(1, 16))


def test_several_formats_in_one_layer_compute() -> None:
    mixed = {"name": "integer", "weight_name": "mxfp", "weight_element": "e2m1", "data_out_name": "bfloat16"}
    graph = annotated(nn.Sequential(nn.Linear(64, 4)), input=torch.randn(2, 64))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": mixed}})
    kinds = [tensor.format.name for tensor in (*graph.metas()[1].args.values(), *graph.metas()[1].results.values())]
    assert kinds == ["integer", "mxfp", "integer", "bfloat16"]
    y = graph.model(torch.randn(2, 64))
    assert y.equal(y.bfloat16().float())


def test_a_list_of_widths_points_to_the_sweep() -> None:
    with pytest.raises(ValueError, match=r"here: weight: 'width' takes one number, got \[2, 4\]; 'ch sweep'"):
        read(name="integer", weight_width=[2, 4])
