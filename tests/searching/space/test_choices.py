"""The configs that a table of choices describes."""

from __future__ import annotations

from typing import Any

import pytest

from chop.formats import FORMATS, parameters
from chop.nn.quantized import QuantConfig
from chop.nn.quantized.config import ROLES
from chop.searching.space import Choices, Dimension
from chop.searching.space.dimension import distinct_choices
from searching.conftest import SEED


def first(dimension: Dimension) -> Any:
    return dimension.choices[0]


def last(dimension: Dimension) -> Any:
    return dimension.choices[-1]


def dimensions(choices: Choices, choose: Any = first) -> dict[str, tuple[Any, ...]]:
    found = {}

    def note(dimension: Dimension) -> Any:
        found[dimension.name] = dimension.choices
        return choose(dimension)

    choices.draw("node", note)
    return found


def test_lists_are_choices_and_other_values_are_fixed() -> None:
    choices = Choices("here", SEED)
    assert dimensions(choices) == {"node/data_in_width": (4, 8), "node/weight_width": (2, 4, 8)}
    assert choices.draw("node", last) == {
        "name": "integer",
        "data_in_width": 8,
        "data_in_frac_width": "NA",
        "weight_width": 8,
        "weight_frac_width": "NA",
        "bias_width": 8,
        "bias_frac_width": 4,
    }
    assert choices.num_configs == 6


def test_na_means_half_of_the_width() -> None:
    config = QuantConfig.read(Choices("here", SEED).draw("node", last), "here")
    assert config is not None
    assert config.formats["weight"].precision == [8, 4]
    assert config.formats["data_in"].precision == [8, 4]


def test_auto_offers_the_values_that_the_format_declares() -> None:
    found = dimensions(Choices("here", {"name": "integer", "weight_width": "auto"}))
    assert found == {"node/weight_width": (2, 3, 4, 6, 8, 16)}


def test_auto_with_several_formats_gives_each_its_own_dimension() -> None:
    choices = Choices("here", {"name": ["integer", "block_fp"], "weight_width": "auto"})
    assert dimensions(choices, first) == {
        "node/name": ("integer", "block_fp"),
        "node/integer.weight_width": (2, 3, 4, 6, 8, 16),
    }
    assert dimensions(choices, last)["node/block_fp.weight_width"] == (3, 4, 6, 8)
    assert choices.num_configs == 6 + 4


def test_keys_are_used_only_by_formats_that_have_them() -> None:
    config = {"name": ["integer", "mxfp"], "weight_width": [4, 8], "weight_element": ["e4m3", "e2m1"]}
    choices = Choices("here", config)
    assert choices.draw("node", first) == {"name": "integer", "weight_width": 4}
    assert choices.draw("node", last) == {"name": "mxfp", "weight_element": "e2m1"}
    assert choices.num_configs == 4


def test_a_choice_can_be_a_list() -> None:
    choices = Choices("here", {"name": "block_fp", "weight_block_size": [16, [4, 4]]})
    assert dimensions(choices) == {"node/weight_block_size": (16, (4, 4))}
    assert Dimension("node/weight_block_size", (16, (4, 4))).labels == (16, "[4, 4]")
    assert choices.draw("node", last) == {"name": "block_fp", "weight_block_size": (4, 4)}


def test_a_key_can_copy_another_key() -> None:
    choices = Choices("here", {"name": "integer", "weight_width": [2, 8], "data_in_width": "same as weight_width"})
    assert choices.draw("node", last) == {"name": "integer", "weight_width": 8, "data_in_width": 8}
    assert choices.num_configs == 2


def test_a_node_can_stay_unquantised() -> None:
    choices = Choices("here", {"name": ["NA", "integer"], "weight_width": [4, 8]})
    assert choices.draw("node", first) == {"name": "NA"}
    assert choices.num_configs == 3
    assert Choices("here", {"name": "NA"}).leaves_unquantised
    assert not choices.leaves_unquantised


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"weight_width": [4]}, "here: needs 'name'"),
        ({"name": "integr"}, "unknown format 'integr'; did you mean 'integer'"),
        ({"name": "integer", "weight_widht": [4]}, "has no parameter 'weight_widht'; did you mean 'weight_width'"),
        ({"name": "integer", "weight_width": []}, "'weight_width' is an empty list"),
        ({"name": "integer", "weight_width": [4, 99]}, "width must be from 1 to"),
        ({"name": ["NA", "integer", "mxfp"], "weight_width": [4, 99]}, "width must be from 1 to"),
        ({"name": ["integer", "mxfp"], "weight_element": ["e4m3", "e4m4"]}, "e4m4"),
        ({"name": "integer", "weight_width": ["4"]}, "'width' must be int, got '4'"),
        ({"name": "integer", "weight_is_signed": "auto"}, "'weight_is_signed' has no predefined values for"),
        (
            {"name": "integer", "weight_width": [4], "data_in_width": "same as wieght_width"},
            "did you mean 'weight_width'",
        ),
    ],
)
def test_errors_name_the_key_or_value(config: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message.replace("(", r"\(")):
        Choices("here", config)


def test_auto_ignores_formats_without_the_parameter() -> None:
    choices = Choices("here", {"name": ["integer", "mxfp"], "weight_width": "auto"})
    assert choices.num_configs == 6 + 1  # integers of 2, 3, 4, 6, 8 and 16 bits; mxfp has no parameter "width"
    assert choices.draw("layer", last) == {"name": "mxfp"}


def test_a_value_allowed_with_only_some_values_of_another_key_is_accepted() -> None:
    choices = Choices("here", {"name": "minifloat_ieee", "weight_width": [4, 8], "weight_exponent_width": [2, 5]})
    assert choices.num_configs == 4  # 4 bits with 5 exponent bits fails when it is tried
    with pytest.raises(ValueError, match="exponent_width must be from 1 to 3, got 5"):
        Choices("here", {"name": "minifloat_ieee", "weight_width": [4, 3], "weight_exponent_width": [2, 5]})


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_searched_over_all_values_that_it_declares(name: str) -> None:
    offered = [each.name for each in parameters(FORMATS[name]) if each.metadata["search"]]
    Choices("here", {"name": name, **{f"{role}_{key}": "auto" for role in ROLES for key in offered}})


def test_a_repeated_value_is_one_choice() -> None:
    choices = Choices("here", {**SEED, "weight_width": [4, 4, 8], "data_in_width": [4, 4]})
    assert dimensions(choices) == {"node/weight_width": (4, 8)}
    assert choices.num_configs == 2


def test_choices_that_are_equal_but_of_different_types_stay_different() -> None:
    assert distinct_choices([1, True, 1.0, 1, [1, 2], [1, 2]]) == (1, True, 1.0, (1, 2))


@pytest.mark.parametrize("choice", [{"a": 1}, [[1, 2]]])
def test_a_choice_that_is_a_table_is_refused(choice: Any) -> None:
    with pytest.raises(ValueError, match="a choice must be a number, a name or a list of them"):
        Choices("here", {**SEED, "weight_width": [choice]})


def test_a_format_may_copy_another_format() -> None:
    config = {"name": "integer", "weight_name": ["integer", "ternary"], "bias_name": "same as weight_name"}
    choices = Choices("here", {**config, "bias_width": [4, 8], "weight_width": 4, "data_in_width": 8})
    assert choices.draw("node", last)["bias_name"] == "ternary"
    assert choices.draw("node", first)["bias_name"] == "integer"
    assert choices.num_configs == 3  # ternary has no width


def test_a_format_cannot_copy_a_parameter() -> None:
    config = {"name": ["integer", "ternary"], "weight_threshold": [0.5, 0.7]}
    with pytest.raises(
        ValueError, match="'bias_name' cannot copy 'weight_threshold': only one of them is the name"
    ):
        Choices("here", {**config, "bias_name": "same as weight_threshold"})
