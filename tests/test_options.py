"""Reading a dict into a dataclass: accepted values, and the message of each error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from chop.formats import FORMATS
from chop.options import _type_hint, check_options, read_options, type_hints
from chop.statistics import STATISTICS


class Probe:
    pass


@dataclass(frozen=True)
class Inner:
    style: Literal["graph", "module"] = "graph"


@dataclass(frozen=True)
class Everything:
    needed: Any = field()
    batch_size: int = field(default=8, metadata={"aliases": ("bs",)})
    rate: float = 0.5
    flag: bool = False
    name: str = "x"
    maybe: float | None = None
    choice: Literal["pt", "pl", 3] = "pt"
    maybe_choice: Literal["pt", "pl"] | None = None
    widths: tuple[int, ...] = ()
    pair: tuple[int, str] = (1, "a")
    names: list[str] = field(default_factory=list)
    dims: Literal["all"] | tuple[int, ...] | None = "all"
    table: dict[str, int] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    path: Path = Path(".")
    probe: Probe | None = None
    items: Sequence[int] = ()
    call: Callable[[int], int] | None = None
    kind: type[Probe] | None = None
    derived: int = field(default=0, init=False)


def read(**values: object) -> Everything:
    return read_options(Everything, {"needed": 0, **values}, "train")


PROBE = Probe()


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("needed", PROBE, PROBE),
        ("batch_size", 3, 3),
        ("rate", 3, 3.0),
        ("rate", 0.25, 0.25),
        ("flag", True, True),
        ("maybe", None, None),
        ("maybe", 2, 2.0),
        ("choice", 3, 3),
        ("maybe_choice", "pl", "pl"),
        ("widths", [4, 8], (4, 8)),
        ("widths", (), ()),
        ("pair", [2, "b"], (2, "b")),
        ("names", ("a", "b"), ["a", "b"]),
        ("dims", "all", "all"),
        ("dims", [0, 2], (0, 2)),
        ("table", {"a": 1}, {"a": 1}),
        ("tables", {"quantize": {"by": "type"}}, {"quantize": {"by": "type"}}),
        ("inner", {"style": "module"}, Inner("module")),
        ("inner", Inner("module"), Inner("module")),
        ("path", "a/b", Path("a/b")),
        ("path", Path("a"), Path("a")),
        ("probe", PROBE, PROBE),
        ("items", [1, 2], [1, 2]),
        ("call", abs, abs),
        ("kind", Probe, Probe),
    ],
)
def test_value_of_the_right_type_is_accepted(key: str, given: object, expected: object) -> None:
    value = getattr(read(**{key: given}), key)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("key", "given", "message"),
    [
        ("batchsize", 3, "unknown key 'batchsize'; did you mean 'batch_size'?"),
        ("derived", 3, "unknown key 'derived'; "),
        ("batch_size", "x", "'batch_size' must be int, got 'x' (str)"),
        ("batch_size", 2.0, "'batch_size' must be int, got 2.0 (float)"),
        ("batch_size", True, "'batch_size' must be int, got True (bool)"),
        ("rate", True, "'rate' must be float, got True (bool)"),
        ("rate", "1", "'rate' must be float, got '1' (str)"),
        ("flag", 1, "'flag' must be bool, got 1 (int)"),
        ("name", None, "'name' must be str, got None (NoneType)"),
        ("maybe", "x", "'maybe' must be float or None, got 'x' (str)"),
        ("choice", "plx", "'choice' must be 'pt' or 'pl' or 3, got 'plx' (str); did you mean 'pl'?"),
        ("choice", 3.0, "'choice' must be 'pt' or 'pl' or 3, got 3.0 (float)"),
        ("maybe_choice", "plx", "must be 'pt' or 'pl' or None, got 'plx' (str); did you mean 'pl'?"),
        ("widths", 8, "'widths' must be a list of int, got 8 (int)"),
        ("widths", [4, "x"], "'widths[1]' must be int, got 'x' (str)"),
        ("pair", [1], "'pair' must have 2 items, got 1"),
        ("names", "ab", "'names' must be a list of str, got 'ab' (str)"),
        ("dims", "every", "'dims' must be 'all' or a list of int or None, got 'every' (str)"),
        ("table", {"a": "b"}, "'table.a' must be int, got 'b' (str)"),
        ("table", {1: 1}, "'key of table' must be str, got 1 (int)"),
        ("table", [1], "'table' must be a dict, got [1] (list)"),
        ("tables", {"quantize": 3}, "'tables.quantize' must be a dict, got 3 (int)"),
        ("inner", {"stile": "graph"}, "inner: unknown key 'stile'; did you mean 'style'?"),
        ("inner", 3, "'inner' must be a dict, got 3 (int)"),
        ("path", 3, "'path' must be Path, got 3 (int)"),
        ("probe", 3, "'probe' must be Probe or None, got 3 (int)"),
        ("items", "ab", "'items' must be Sequence, got 'ab' (str)"),
        ("call", 3, "'call' must be Callable or None, got 3 (int)"),
        ("kind", PROBE, "'kind' must be type or None, got <"),
    ],
)
def test_wrong_key_or_value_is_reported(key: str, given: object, message: str) -> None:
    with pytest.raises(ValueError, match=r"^train: ") as caught:
        read(**{key: given})
    assert message in str(caught.value)


def test_missing_key_is_reported() -> None:
    with pytest.raises(ValueError, match=r"^train: 'needed' is required$"):
        read_options(Everything, {}, "train")


def test_none_means_no_options() -> None:
    assert read_options(Inner, None, "train") == Inner()


def test_instance_is_returned_unchanged() -> None:
    inner = Inner("module")
    assert read_options(Inner, inner, "train") is inner


def test_value_that_is_not_a_dict_is_reported() -> None:
    with pytest.raises(ValueError, match=r"^train: must be a dict of options, got 'x' \(str\)$"):
        read_options(Inner, "x", "train")


def test_alias_is_accepted() -> None:
    assert read(bs=3).batch_size == 3


def test_field_given_under_two_names_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^train: 'batch_size' is given twice, as 'batch_size' and 'bs'$"):
        read(batch_size=3, bs=4)


def test_mapping_is_neither_changed_nor_shared() -> None:
    given = {"needed": 1, "table": {"a": 1}, "names": ["a"]}
    options = read_options(Everything, given, "train")
    options.table["b"] = 2
    options.names.append("b")
    assert given == {"needed": 1, "table": {"a": 1}, "names": ["a"]}


def test_error_of_the_dataclass_itself_says_where() -> None:
    @dataclass(frozen=True)
    class Even:
        width: int = 2

        def __post_init__(self) -> None:
            if self.width % 2:
                raise ValueError(f"'width' must be even, got {self.width}")

    with pytest.raises(ValueError, match=r"^quantize: 'width' must be even, got 3$"):
        read_options(Even, {"width": 3}, "quantize")


def test_long_value_is_abbreviated() -> None:
    with pytest.raises(ValueError, match=r"got 'aaaa") as caught:
        read(batch_size="a" * 1000)
    assert len(str(caught.value)) < 150


def test_checking_requires_no_field() -> None:
    assert check_options(Everything, {"rate": 1}, "file.toml") == {"rate": 1.0}


@pytest.mark.parametrize("cls", [Everything, *FORMATS.values(), *STATISTICS.values()])
def test_the_type_of_one_field_is_that_among_all_types(cls: type[object]) -> None:
    hints = type_hints(cls)
    for each in fields(cast(Any, cls)):
        assert _type_hint(cls, each.name) == hints[each.name]
