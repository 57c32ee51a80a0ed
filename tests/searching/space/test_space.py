"""All points of a space, and the uniform ones among them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.searching.space import read_seeds
from chop.searching.space.baselines import uniform_baselines
from samples import annotated
from searching.conftest import SEED, table


def test_every_node_has_its_own_choices_whatever_chooses_its_seed(graph: MaseGraph) -> None:
    by_type = read_seeds(table("type", linear=SEED), graph.annotated_metas())
    by_name = read_seeds(table("name", first=SEED, second=SEED), graph.annotated_metas())
    assert [unit.name for unit in by_type.units] == [unit.name for unit in by_name.units] == ["first", "second"]
    assert by_type.num_points == by_name.num_points == 36


def test_default_is_for_all_others(graph: MaseGraph) -> None:
    space = read_seeds(table("name", default=SEED, first={"name": "NA"}), graph.annotated_metas())
    assert [unit.name for unit in space.units] == ["relu", "second"]


def test_points_are_all_there_once_and_give_their_configs_back(graph: MaseGraph) -> None:
    several = {"name": ["NA", "integer", "mxfp"], "weight_width": [2, 4], "weight_element": ["e4m3", "e2m1"]}
    space = read_seeds(table("name", first=SEED, second=several), graph.annotated_metas())
    points = list(space.points())
    assert len(points) == space.num_points == 6 * 5
    assert len({tuple(sorted(point.items())) for point in points}) == len(points)
    for point in points:
        assert space.params(space.configs(point)) == point


def test_what_is_not_in_the_space_has_no_point(graph: MaseGraph) -> None:
    space = read_seeds(table("name", first=SEED), graph.annotated_metas())
    inside = space.configs(next(space.points()))
    assert space.params({"first": {**inside["first"], "weight_width": 3}}) is None
    assert space.params({"first": {**inside["first"], "bias_width": 3}}) is None


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layer(self.layer(x))
        return result


def test_a_layer_called_twice_is_one_unit() -> None:
    graph = annotated(Twice(), x=torch.randn(2, 4))
    space = read_seeds(table("type", linear=SEED), graph.annotated_metas())
    assert [[meta.node.name for meta in unit.metas] for unit in space.units] == [["layer", "layer_1"]]
    with pytest.raises(ValueError, match="'layer' and 'layer_1' call the same layer"):
        read_seeds(table("name", layer=SEED, default={"name": "NA"}), graph.annotated_metas())


@pytest.mark.parametrize(
    ("by", "key", "message"),
    [
        ("name", "frist", "there is no node 'frist', nothing to quantise; did you mean 'first'"),
        ("type", "liner", "no op 'liner' can be quantised; did you mean 'linear'"),
        ("regex_name", "third.*", "matches no node that can be quantised"),
    ],
)
def test_a_seed_for_nothing_is_a_mistake(graph: MaseGraph, by: str, key: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_seeds(table(by, **{key: SEED}), graph.annotated_metas())


def test_uniform_baselines_have_every_width_and_the_usual_ones_between(graph: MaseGraph) -> None:
    space = read_seeds(table("type", linear=SEED), graph.annotated_metas())
    found = uniform_baselines(space)
    assert list(found) == ["integer, 8 bits", "integer, 6 bits", "integer, 4 bits", "integer, 2 bits"]
    for width, configs in zip((8, 6, 4, 2), found.values(), strict=True):
        for config in configs.values():
            widths = {key: value for key, value in config.items() if key.endswith("_width") and "frac" not in key}
            assert widths == {"data_in_width": width, "weight_width": width, "bias_width": 8}
    inside = [space.params(configs) is not None for configs in found.values()]
    assert inside == [True, False, True, False]  # 6 is not offered, and data of 2 bits are not


def test_uniform_baselines_of_formats_without_widths(graph: MaseGraph) -> None:
    seed: dict[str, Any] = {"name": ["fp8", "ternary"], "weight_element": ["e4m3", "e5m2"]}
    found = uniform_baselines(read_seeds(table("type", linear=seed), graph.annotated_metas()))
    assert list(found) == ["fp8", "ternary"]


def test_many_choices_are_counted_and_not_walked_through(graph: MaseGraph) -> None:
    many = {**SEED, **{key: list(range(2, 17)) for key in ("data_in_width", "weight_width", "bias_width")}}
    space = read_seeds(table("type", linear=many), graph.annotated_metas())
    assert space.num_points == math.prod([15**3] * 2)
