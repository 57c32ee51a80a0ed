"""`ch info`: the tables of all kinds, and the page of everything in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import pytest

from chop.config import INFO_KINDS
from chop.dataset import DATASETS
from chop.formats import FORMATS, parameters
from chop.info import describe
from chop.info.page import Listing, Page
from chop.info.parameters import attribute_docs, field_table, type_name
from chop.models import MODELS
from chop.nn.quantized import PRESETS
from chop.ops import OPS
from chop.passes import PASSES
from chop.registry import Registry

REGISTRIES: dict[str, Registry[Any]] = {
    "models": MODELS,
    "datasets": DATASETS,
    "formats": FORMATS,
    "presets": PRESETS,
    "passes": PASSES,
    "ops": OPS,
}
EVERYTHING = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry]


def test_command_line_accepts_every_kind() -> None:
    assert set(INFO_KINDS) == set(REGISTRIES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", INFO_KINDS)
def test_table_has_a_row_per_name(kind: str) -> None:
    header, rule, *lines = describe(kind).splitlines()
    assert header.startswith("name")
    assert set(rule) == {"-", " "}
    names = list(REGISTRIES[kind])
    assert [line.split()[0] for line in lines] == (sorted(names) if kind == "formats" else names)


@pytest.mark.parametrize(("kind", "name"), EVERYTHING)
def test_everything_has_a_page(kind: str, name: str) -> None:
    assert describe(kind, name).splitlines()[0].endswith(f" {name}")


@pytest.mark.parametrize("name", FORMATS)
def test_page_of_a_format_lists_its_parameters_with_their_help(name: str) -> None:
    text = describe("formats", name)
    for parameter in parameters(FORMATS[name]):
        assert re.search(rf"^{parameter.name} ", text, re.MULTILINE)
        assert parameter.metadata["help"] in text


def test_page_of_integer_has_its_range() -> None:
    text = describe("formats", "integer")
    assert re.search(r"^bits per element +8 ", text, re.MULTILINE)
    assert re.search(r"^largest +7\.9375$", text, re.MULTILINE)
    assert re.search(r"^dynamic range +42\.1 dB$", text, re.MULTILINE)
    assert re.search(r"^smallest above 0 +0\.0625$", text, re.MULTILINE)
    assert re.search(r"^frac_width .* None +fraction bits", text, re.MULTILINE)


def test_page_of_a_model_counts_its_parameters_per_layer() -> None:
    text = describe("models", "jsc-tiny")
    assert "117 for jsc" in text
    assert re.search(
        r"^seq_blocks\.2 +Linear\(in_features=16, out_features=5, bias=True\) +85$", text, re.MULTILINE
    )


def test_page_of_an_op_has_its_spellings_and_operands() -> None:
    text = describe("ops", "relu")
    for spelling in ("nn.ReLU", "F.relu", ".relu()"):
        assert spelling in text
    assert re.search(r"^data_in_0 +data_in", text, re.MULTILINE)
    assert "This op is never quantised." in describe("ops", "view")


@pytest.mark.parametrize("name", PASSES)
def test_page_of_a_pass_has_its_arguments(name: str) -> None:
    text = describe("passes", name)
    for row in field_table(PASSES[name].args_class).rows:
        assert re.search(rf"^{row[0]} ", text, re.MULTILINE)


def test_page_of_a_data_set_has_its_options() -> None:
    assert re.search(r"^num_rows +int +1000", describe("datasets", "toy_tiny"), re.MULTILINE)
    assert "inside, outside" in describe("datasets", "toy_tiny")


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


def test_field_documentation_is_the_comment_after_it_or_the_string_below() -> None:
    assert attribute_docs(Heir) == {"first": "again", "second": "Below it.", "third": "", "fourth": ""}


T = TypeVar("T")


@dataclass
class WithType(Generic[T]):
    first: T | None = None
    second: dict[str, T] = field(default_factory=dict)
    third: T = field(default=cast(Any, 0))


class Specific(WithType[int]):
    pass


def test_field_table_resolves_type_variables() -> None:
    assert [row[1] for row in field_table(Specific).rows] == ["int | None", "dict[str, int]", "int"]


def test_field_table_has_type_and_default() -> None:
    rows = [row[:4] for row in field_table(Sample).rows]
    assert rows == [
        ("first", "int", "required", "behind"),
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
def test_types_are_shown_as_in_source(hint: object, name: str) -> None:
    assert type_name(hint) == name


def test_empty_column_is_left_out_and_bars_are_escaped() -> None:
    table = Listing(("a", "b", "c"), [("x|y", None, 1), ("z", "", 12_345)])
    assert table.render() == "a    c\n---  ------\nx|y  1\nz    12,345"
    assert table.markdown() == "| a | c |\n| --- | --- |\n| x\\|y | 1 |\n| z | 12,345 |"


def test_markdown_escapes_stars_outside_of_code() -> None:
    table = Listing(("a",), [("2**3 and `2**3`",)])
    assert table.markdown().endswith("| 2\\*\\*3 and `2**3` |")


def test_page_leaves_out_empty_facts_and_tables() -> None:
    page = Page("op x", "", {"yes": True, "none": None, "list": ["a", 0.5]}, {"t": Listing(("a",), [])})
    assert page.render() == "op x\n\nyes   yes\nlist  a, 0.5"
