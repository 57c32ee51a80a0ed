"""The formats and widths of a sweep."""

from __future__ import annotations

import pytest

from chop.config import SweepConfig
from chop.formats import FORMATS
from chop.registry import UnknownNameError
from chop.sweeping.settings import Setting, read_roles, read_settings, read_widths


def config(**options: object) -> SweepConfig:
    return SweepConfig(model="toy", dataset="toy_tiny", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "expected"),
    [("2..4", [2, 3, 4]), ("8,4", [4, 8]), ("2..3, 8", [2, 3, 8]), (4, [4]), ((6, 4), [4, 6])],
)
def test_widths_are_numbers_ranges_and_lists(given: str | int | tuple[int, ...], expected: list[int]) -> None:
    assert read_widths(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("2-8", "'widths' must be a number, a range such as 2..8 or a list such as 4,6,8, got '2-8'"),
        ("8..2", "'widths': the range 8..2 is empty, because 2 is below 8"),
        ("0..2", "'widths' must be from 1 to 32, got 0"),
        ((), "'widths' must be from 1 to 32, got none"),
    ],
)
def test_wrong_widths_are_reported(given: str | tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match="widths") as caught:
        read_widths(given)
    assert str(caught.value) == message


def test_settings_have_the_widths_that_their_formats_offer() -> None:
    found = read_settings(config(formats="integer,mxfp,ternary", widths="2..6"))
    assert [(each.label, each.number_format.width) for each in found] == [
        *(("integer", width) for width in range(2, 7)),
        ("mxfp e2m1", 4),
        ("mxfp e3m2", 6),
        ("mxfp e2m3", 6),
        ("ternary", 2),
    ]


def test_formats_have_parameters_in_brackets_and_one_width_if_the_brackets_name_it() -> None:
    given = "integer(scale=float, granularity=channel),integer,mxfp(element=e2m1),nvfp4,integer(width=9)"
    found = read_settings(config(formats=given, widths="4,8"))
    assert [(each.label, each.number_format.width) for each in found] == [
        *(("integer(scale=float,granularity=channel)", width) for width in (4, 8)),
        *(("integer", width) for width in (4, 8)),
        ("mxfp e2m1", 4),
        ("nvfp4", 4),
        ("integer", 9),
    ]
    assert found[0].params == {"width": 4, "scale": "float", "granularity": "channel"}
    assert found[-1].params == {"width": 9, "frac_width": "auto"}
    with pytest.raises(ValueError, match="formats: integer: unknown key 'scales'"):
        read_settings(config(formats="integer(scales=float)"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_swept(name: str) -> None:
    widths = [setting.number_format.width for setting in read_settings(config(formats=name, widths="1..32"))]
    assert widths == sorted(widths)
    assert FORMATS[name]().width in widths


def test_a_format_without_these_widths_is_reported() -> None:
    with pytest.raises(ValueError, match=r"format 'mxfp' has none of these widths; it has 4, 6, 8 bits"):
        read_settings(config(formats="mxfp", widths="2..3"))
    with pytest.raises(UnknownNameError, match="unknown format 'mxpf'"):
        read_settings(config(formats="mxpf"))


def test_unknown_roles_are_reported() -> None:
    assert read_roles(config(roles=("weight",))) == ["weight"]
    with pytest.raises(UnknownNameError, match="unknown role 'weights'; did you mean 'weight'"):
        read_roles(config(roles="weights"))


def test_other_roles_stay_float() -> None:
    assert Setting("integer", {"width": 4}).config(["weight"]) == {
        "name": "integer",
        "weight_width": 4,
        "data_in_name": "float",
        "bias_name": "float",
    }
