"""`ch info`: everything that has a name, in tables, and all about one of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from chop import cli
from chop.cli.parser import KINDS as OFFERED
from chop.dataset import DATASETS
from chop.formats import FORMATS, parameters
from chop.info import KINDS, describe
from chop.info.page import Page, Table
from chop.info.parameters import attribute_docs, field_table, type_name
from chop.info.passes import arguments_of
from chop.models import MODELS
from chop.ops import OPS
from chop.passes import PASSES
from chop.registry import Registry

REGISTRIES: dict[str, Registry[Any]] = {
    "models": MODELS,
    "datasets": DATASETS,
    "formats": FORMATS,
    "passes": PASSES,
    "ops": OPS,
}
EVERYTHING = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry]


def test_the_parser_offers_every_kind() -> None:
    assert set(OFFERED) == set(KINDS) == set(REGISTRIES)


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_has_a_line_for_each(kind: str) -> None:
    header, rule, *lines = describe(kind).splitlines()
    assert header.startswith("name")
    assert set(rule) == {"-", " "}
    assert [line.split()[0] for line in lines] == list(REGISTRIES[kind])


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_everything_has_a_page(kind: str, name: str) -> None:
    assert describe(kind, name).splitlines()[0].endswith(f" {name}")


@pytest.mark.parametrize("name", FORMATS)
def test_the_page_of_a_format_has_its_parameters_with_their_help(name: str) -> None:
    text = describe("formats", name)
    for parameter in parameters(FORMATS[name]):
        assert re.search(rf"^{parameter.name} ", text, re.MULTILINE)
        assert parameter.metadata["help"] in text


def test_the_page_of_integer_says_what_it_can_hold() -> None:
    text = describe("formats", "integer")
    assert re.search(r"^bits an element +8 at the defaults", text, re.MULTILINE)
    assert re.search(r"^largest +7\.9375$", text, re.MULTILINE)
    assert re.search(r"^dynamic range +42\.1 dB$", text, re.MULTILINE)
    assert re.search(r"^smallest above 0 +0\.0625$", text, re.MULTILINE)
    assert re.search(r"^frac_width .* 4 +bits behind the point", text, re.MULTILINE)


def test_the_page_of_a_model_counts_its_parameters_by_layer() -> None:
    text = describe("models", "jsc-tiny")
    assert "117 on jsc" in text
    assert re.search(
        r"^seq_blocks\.2 +Linear\(in_features=16, out_features=5, bias=True\) +85$", text, re.MULTILINE
    )


def test_the_page_of_an_op_has_its_spellings_and_operands() -> None:
    text = describe("ops", "relu")
    for spelling in ("nn.ReLU", "F.relu", ".relu()"):
        assert spelling in text
    assert re.search(r"^data_in_0 +data_in", text, re.MULTILINE)
    assert "It is never quantised." in describe("ops", "view")


@pytest.mark.parametrize("name", PASSES)
def test_the_page_of_a_pass_has_its_arguments(name: str) -> None:
    text = describe("passes", name)
    for row in field_table(arguments_of(name)).rows:
        assert re.search(rf"^{row[0]} ", text, re.MULTILINE)


def test_the_page_of_a_data_set_has_its_options() -> None:
    assert re.search(r"^num_rows +int +1000", describe("datasets", "toy_tiny"), re.MULTILINE)
    assert "inside, outside" in describe("datasets", "toy_tiny")


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "formats", "integer"]) == 0
    assert capsys.readouterr().out == describe("formats", "integer") + "\n"


@dataclass
class Sample:
    first: int  # behind
    second: int = 2
    """Below
    it."""
    third: list[int] = field(default_factory=list)
    fourth: int = field(default=0, init=False)


@dataclass
class Heir(Sample):
    first: int = 1  # again


def test_help_is_found_behind_a_field_or_below_it() -> None:
    assert attribute_docs(Heir) == {"first": "again", "second": "Below it.", "third": "", "fourth": ""}


def test_fields_are_listed_with_type_and_default() -> None:
    rows = [row[:4] for row in field_table(Sample).rows]
    assert rows == [
        ("first", "int", "needed", "behind"),
        ("second", "int", "2", "Below it."),
        ("third", "list[int]", "[]", ""),
    ]


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "int"),
        (int | None, "int | None"),
        (int | Literal["auto"] | None, "int | 'auto' | None"),
        (Callable[[int], str], "Callable[[int], str]"),
        (Mapping[str, Any], "Mapping[str, Any]"),
        (Literal["a", "b"], "'a' | 'b'"),
        (tuple[int, ...], "tuple[int, ...]"),
        (dict[str, Sample | None], "dict[str, Sample | None]"),
        ("int | None", "int | None"),
    ],
)
def test_types_are_written_as_in_source(hint: object, name: str) -> None:
    assert type_name(hint) == name


def test_an_empty_column_is_left_out_and_bars_do_not_end_a_cell() -> None:
    table = Table(("a", "b", "c"), [("x|y", None, 1), ("z", "", 12_345)])
    assert table.render() == "a    c\n---  ------\nx|y  1\nz    12,345"
    assert table.markdown() == "| a | c |\n| --- | --- |\n| x\\|y | 1 |\n| z | 12,345 |"


def test_markdown_shows_stars_as_they_are() -> None:
    table = Table(("a",), [("2**3 and `2**3`",)])
    assert table.markdown().endswith("| 2\\*\\*3 and `2**3` |")


def test_a_page_leaves_out_what_is_empty() -> None:
    page = Page("op x", "", {"yes": True, "none": None, "list": ["a", 0.5]}, {"t": Table(("a",), [])})
    assert page.render() == "op x\n\nyes   yes\nlist  a, 0.5"
