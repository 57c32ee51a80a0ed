"""Names, what they stand for, and what is said when they are wrong."""

import pytest

from chop.registry import Registry, UnknownNameError, closest


def fruits() -> Registry[str]:
    registry: Registry[str] = Registry("fruit")
    registry.add("pear", "a pear")
    registry.add("apple", "an apple")
    return registry


def test_entries_are_found_in_the_order_of_registration() -> None:
    assert dict(fruits()) == {"pear": "a pear", "apple": "an apple"}
    assert list(fruits()) == ["pear", "apple"]
    assert len(fruits()) == 2


def test_the_decorator_files_and_returns_what_it_decorates() -> None:
    registry: Registry[type] = Registry("kind")

    @registry.register("thing")
    class Thing:
        pass

    assert registry["thing"] is Thing


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        fruits()["aple"]
    assert str(caught.value) == "unknown fruit 'aple'; did you mean 'apple'?"


def test_a_name_near_to_none_lists_all() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown fruit 'xyz'; known: apple, pear$"):
        fruits()["xyz"]


def test_an_empty_registry_says_so() -> None:
    empty: Registry[int] = Registry("fruit")
    with pytest.raises(UnknownNameError, match=r"^unknown fruit 'apple'; none are registered$"):
        empty["apple"]


def test_a_repeated_name_raises_and_keeps_the_first() -> None:
    registry = fruits()
    with pytest.raises(ValueError, match=r"^fruit 'pear' is already registered, as 'a pear'$"):
        registry.add("pear", "another")
    assert registry["pear"] == "a pear"


def test_asking_for_what_is_not_there_is_no_error() -> None:
    assert "pear" in fruits()
    assert "plum" not in fruits()


def test_an_unhashable_name_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown fruit"):
        fruits()[["pear"]]  # type: ignore[index]


def test_closest_takes_any_value() -> None:
    assert closest(3, ["a", "b"]) == "known: a, b"


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("--lr", ["--load", "--learning-rate", "--lr-scheduler"], "--learning-rate"),
        ("lr", ["load_name", "learning_rate"], "learning_rate"),
        ("epochs", ["max_epochs", "max_steps"], "max_epochs"),
        ("int", ["mxint", "integer", "log"], "integer"),
        ("batchsize", ["batch_size", "seed"], "batch_size"),
        ("jsc-tinny", ["jsc-tiny", "jsc-toy"], "jsc-tiny"),
    ],
)
def test_abbreviations_and_parts_of_names_are_recognised(name: str, known: list[str], expected: str) -> None:
    assert closest(name, known) == f"did you mean '{expected}'?"


def test_short_names_have_no_nearest() -> None:
    assert closest("x", ["max_epochs", "xy_z"]) == "known: max_epochs, xy_z"
