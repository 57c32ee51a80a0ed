"""What a table of choices stands for."""

from __future__ import annotations

from typing import Any

import pytest

from chop.formats import FORMATS, parameters
from chop.nn.quantized import QuantConfig
from chop.nn.quantized.config import ROLES
from chop.searching.space import Dimension, Seed
from searching.conftest import SEED


def first(dimension: Dimension) -> Any:
    return dimension.choices[0]


def last(dimension: Dimension) -> Any:
    return dimension.choices[-1]


def dimensions(seed: Seed, choose: Any = first) -> dict[str, tuple[Any, ...]]:
    found = {}

    def note(dimension: Dimension) -> Any:
        found[dimension.name] = dimension.choices
        return choose(dimension)

    seed.draw("node", note)
    return found


def test_lists_are_choices_and_the_rest_is_fixed() -> None:
    seed = Seed("here", SEED)
    assert dimensions(seed) == {"node/data_in_width": (4, 8), "node/weight_width": (2, 4, 8)}
    assert seed.draw("node", last) == {
        "name": "integer",
        "data_in_width": 8,
        "data_in_frac_width": "NA",
        "weight_width": 8,
        "weight_frac_width": "NA",
        "bias_width": 8,
        "bias_frac_width": 4,
    }
    assert seed.num_points == 6


def test_na_is_half_of_the_width() -> None:
    config = QuantConfig.read(Seed("here", SEED).draw("node", last), "here")
    assert config is not None
    assert config.formats["weight"].precision == [8, 4]
    assert config.formats["data_in"].precision == [8, 4]


def test_auto_is_what_the_format_offers() -> None:
    found = dimensions(Seed("here", {"name": "integer", "weight_width": "auto"}))
    assert found == {"node/weight_width": (2, 3, 4, 6, 8, 16)}


def test_auto_of_several_formats_is_a_dimension_of_each() -> None:
    seed = Seed("here", {"name": ["integer", "block_fp"], "weight_width": "auto"})
    assert dimensions(seed, first) == {
        "node/name": ("integer", "block_fp"),
        "node/integer.weight_width": (2, 3, 4, 6, 8, 16),
    }
    assert dimensions(seed, last)["node/block_fp.weight_width"] == (3, 4, 6, 8)
    assert seed.num_points == 6 + 4


def test_keys_go_with_the_format_that_has_them() -> None:
    config = {"name": ["integer", "mxfp"], "weight_width": [4, 8], "weight_element": ["e4m3", "e2m1"]}
    seed = Seed("here", config)
    assert seed.draw("node", first) == {"name": "integer", "weight_width": 4}
    assert seed.draw("node", last) == {"name": "mxfp", "weight_element": "e2m1"}
    assert seed.num_points == 4


def test_a_choice_may_be_a_list() -> None:
    seed = Seed("here", {"name": "block_fp", "weight_block_size": [16, [4, 4]]})
    assert dimensions(seed) == {"node/weight_block_size": (16, (4, 4))}
    assert Dimension("node/weight_block_size", (16, (4, 4))).labels == (16, "[4, 4]")
    assert seed.draw("node", last) == {"name": "block_fp", "weight_block_size": (4, 4)}


def test_one_key_follows_another() -> None:
    seed = Seed("here", {"name": "integer", "weight_width": [2, 8], "data_in_width": "same as weight_width"})
    assert seed.draw("node", last) == {"name": "integer", "weight_width": 8, "data_in_width": 8}
    assert seed.num_points == 2


def test_a_node_may_be_left_alone() -> None:
    seed = Seed("here", {"name": ["NA", "integer"], "weight_width": [4, 8]})
    assert seed.draw("node", first) == {"name": "NA"}
    assert seed.num_points == 3
    assert Seed("here", {"name": "NA"}).is_nothing
    assert not seed.is_nothing


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"weight_width": [4]}, "here: needs 'name'"),
        ({"name": "integr"}, "unknown format 'integr', did you mean 'integer'"),
        ({"name": "integer", "weight_widht": [4]}, "has no parameter 'weight_widht'; did you mean 'weight_width'"),
        ({"name": "integer", "weight_width": []}, "'weight_width' is an empty list"),
        ({"name": "integer", "weight_width": [4, 99]}, "width must be from 1 to"),
        ({"name": ["NA", "integer", "mxfp"], "weight_width": [4, 99]}, "width must be from 1 to"),
        ({"name": ["integer", "mxfp"], "weight_element": ["e4m3", "e4m4"]}, "e4m4"),
        ({"name": "integer", "weight_width": ["4"]}, "'width' must be int, got '4'"),
        ({"name": "integer", "weight_is_signed": "auto"}, "'weight_is_signed' has no values of its own"),
        (
            {"name": "integer", "weight_width": [4], "data_in_width": "same as wieght_width"},
            "did you mean 'weight_width'",
        ),
    ],
)
def test_mistakes_are_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message.replace("(", r"\(")):
        Seed("here", config)


def test_what_one_format_offers_is_not_asked_of_another() -> None:
    seed = Seed("here", {"name": ["integer", "mxfp"], "weight_width": "auto"})
    assert seed.num_points == 6 + 1  # integers of 2, 3, 4, 6, 8 and 16 bits; the widths of mxfp are its own
    assert seed.draw("layer", last) == {"name": "mxfp"}


def test_a_value_that_fits_only_some_values_of_another_key_is_offered() -> None:
    seed = Seed("here", {"name": "minifloat_ieee", "weight_width": [4, 8], "weight_exponent_width": [2, 5]})
    assert seed.num_points == 4  # of which 4 bits with 5 of exponent fail as a trial
    with pytest.raises(ValueError, match="exponent_width must be from 1 to 3, got 5"):
        Seed("here", {"name": "minifloat_ieee", "weight_width": [4, 3], "weight_exponent_width": [2, 5]})


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_searched_over_all_that_it_offers(name: str) -> None:
    offered = [each.name for each in parameters(FORMATS[name]) if each.metadata["search"]]
    Seed("here", {"name": name, **{f"{role}_{key}": "auto" for role in ROLES for key in offered}})
