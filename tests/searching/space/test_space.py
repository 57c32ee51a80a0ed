"""The configurations of a space, and its uniform baselines."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.searching.space import read_space
from chop.searching.space.baselines import uniform_baselines
from chop.searching.space.dimension import distinct_params
from samples import annotated
from searching.conftest import SEED, table


def test_every_node_has_its_own_choices_by_type_and_by_name(graph: MaseGraph) -> None:
    by_type = read_space(table("type", linear=SEED), graph.annotated_metas())
    by_name = read_space(table("name", first=SEED, second=SEED), graph.annotated_metas())
    assert [unit.name for unit in by_type.units] == [unit.name for unit in by_name.units] == ["first", "second"]
    assert by_type.num_configurations == by_name.num_configurations == 36


def test_default_applies_to_all_other_nodes(graph: MaseGraph) -> None:
    space = read_space(table("name", default=SEED, first={"name": "NA"}), graph.annotated_metas())
    assert [unit.name for unit in space.units] == ["relu", "second"]


def test_all_params_are_distinct_and_convert_to_configs_and_back(graph: MaseGraph) -> None:
    several = {"name": ["NA", "integer", "mxfp"], "weight_width": [2, 4], "weight_element": ["e4m3", "e2m1"]}
    space = read_space(table("name", first=SEED, second=several), graph.annotated_metas())
    found = list(space.all_params())
    assert len(found) == space.num_configurations == 6 * 5
    assert len({tuple(sorted(params.items())) for params in found}) == len(found)
    for params in found:
        assert space.params(space.configuration(params)) == params


def test_a_configuration_outside_the_space_has_no_params(graph: MaseGraph) -> None:
    space = read_space(table("name", first=SEED), graph.annotated_metas())
    inside = space.configuration(next(space.all_params()))
    assert space.params({"first": {**inside["first"], "weight_width": 3}}) is None
    assert space.params({"first": {**inside["first"], "bias_width": 3}}) is None


class Twice(nn.Module):
    """One linear layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(self.layer(x))
        return result


def test_a_layer_called_twice_is_one_unit() -> None:
    graph = annotated(Twice(), x=torch.randn(2, 4))
    space = read_space(table("type", linear=SEED), graph.annotated_metas())
    assert [[meta.node.name for meta in unit.metas] for unit in space.units] == [["layer", "layer_1"]]
    with pytest.raises(ValueError, match="'layer' and 'layer_1' call the same layer"):
        read_space(table("name", layer=SEED, default={"name": "NA"}), graph.annotated_metas())


@pytest.mark.parametrize(
    ("by", "key", "message"),
    [
        ("name", "frist", "there is no node 'frist'; did you mean 'first'"),
        ("type", "liner", "'liner' is not an op that can be quantised; did you mean 'linear'"),
        ("regex_name", "third.*", "matches no node that can be quantised"),
    ],
)
def test_a_seed_without_matching_nodes_is_an_error(graph: MaseGraph, by: str, key: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_space(table(by, **{key: SEED}), graph.annotated_metas())


def test_uniform_baselines_have_every_offered_width_and_common_widths_between(graph: MaseGraph) -> None:
    space = read_space(table("type", linear=SEED), graph.annotated_metas())
    found = uniform_baselines(space)
    assert list(found) == ["integer, 8 bits", "integer, 6 bits", "integer, 4 bits", "integer, 2 bits"]
    for width, configuration in zip((8, 6, 4, 2), found.values(), strict=True):
        for config in configuration.values():
            widths = {key: value for key, value in config.items() if key.endswith("_width") and "frac" not in key}
            assert widths == {"data_in_width": width, "weight_width": width, "bias_width": 8}
    inside = [space.params(configuration) is not None for configuration in found.values()]
    assert inside == [True, False, True, False]  # 6 bits are not offered, nor are 2 bits for data


def test_formats_without_widths_have_a_baseline_per_element_or_one(graph: MaseGraph) -> None:
    seed: dict[str, Any] = {"name": ["fp8", "ternary"], "weight_element": ["e4m3", "e5m2"]}
    found = uniform_baselines(read_space(table("type", linear=seed), graph.annotated_metas()))
    assert list(found) == ["fp8, e4m3", "fp8, e5m2", "ternary"]
    assert found["fp8, e5m2"]["first"]["weight_element"] == "e5m2"


def test_the_width_of_another_format_does_not_name_a_baseline(graph: MaseGraph) -> None:
    """A baseline "mxfp, 8 bits" had 4-bit elements: the 8 bits were those of the bias."""
    seed = {"name": "mxfp", "weight_element": ["e2m1", "e4m3"], "data_in_element": ["e2m1", "e4m3"]}
    bias = {"bias_name": "integer", "bias_width": [8, 16], "bias_frac_width": "NA"}
    found = uniform_baselines(read_space(table("type", linear={**seed, **bias}), graph.annotated_metas()))
    assert list(found) == ["mxfp, e2m1", "mxfp, e4m3"]
    assert found["mxfp, e4m3"]["first"] == {
        "name": "mxfp",
        "bias_name": "integer",
        "data_in_element": "e4m3",
        "weight_element": "e4m3",
        "bias_width": 8,
        "bias_frac_width": "NA",
    }


def test_large_spaces_are_counted_without_enumeration(graph: MaseGraph) -> None:
    many = {**SEED, **{key: list(range(2, 17)) for key in ("data_in_width", "weight_width", "bias_width")}}
    space = read_space(table("type", linear=many), graph.annotated_metas())
    assert space.num_configurations == math.prod([15**3] * 2)


def test_params_are_distinct_whatever_the_order_of_their_keys() -> None:
    one, same, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3}
    assert distinct_params([one, {}, same, other, {}]) == [one, {}, other]
    assert distinct_params([one, {}, same, other, {}], keep_empty=True) == [one, {}, other, {}]
