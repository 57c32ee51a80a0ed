"""Columns of tables as numbers and classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chop.dataset.columns import pick_label, to_classes, to_numbers


@pytest.mark.parametrize("name", ["label", "class", "target", "y"])
def test_common_names_of_the_label_column_are_found(name: str) -> None:
    assert pick_label(["a", name, "b"], None, "file") == name


def test_a_given_label_takes_precedence() -> None:
    assert pick_label(["a", "label", "kind"], "kind", "file") == "kind"


@pytest.mark.parametrize(
    ("columns", "label", "message"),
    [
        (["a", "kind"], "kidn", "file has no column 'kidn'; did you mean 'kind'? its columns: a, kind"),
        (["a", "kind"], "zzz", "file has no column 'zzz'; its columns: a, kind"),
        (["a"], None, "file has no column called label, class, target, y: name the label "
                      "column with label=; its columns: a"),
        ([f"c{i}" for i in range(20)], "zzz", "file has no column 'zzz'; its columns: c0, c1, c2, c3, c4, c5, c6, "
                                              "c7, c8, c9, c10, c11 and 8 more"),
        (["y", "class"], None, "file has several possible label columns, class, y: choose one with label=, "
                               "and leave the others out with ignore='y'"),
    ],
)  # fmt: skip
def test_a_missing_label_is_reported(columns: list[str], label: str | None, message: str) -> None:
    with pytest.raises(ValueError, match="file has") as caught:
        pick_label(columns, label, "file")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("labels", "numbers", "names"),
    [
        (["w", "g", "w", "q"], [2, 0, 2, 1], ("g", "q", "w")),
        ([3, 1, 10, 1], [1, 0, 2, 0], ("1", "3", "10")),  # in the order of numbers, not of text
        ([2.0, -1.0, 2.0], [1, 0, 1], ("-1", "2")),
        ([True, False, True], [1, 0, 1], ("False", "True")),
        ([b"w", b"g"], [1, 0], ("g", "w")),
        (np.array(["b", "a"], dtype="S1"), [1, 0], ("a", "b")),
        (np.array([7, 5], dtype=np.uint8), [1, 0], ("5", "7")),
        (pd.Series(["b", "a"], dtype="category"), [1, 0], ("a", "b")),
        (pd.Series([4, 2], dtype="Int64"), [1, 0], ("2", "4")),
        (["1", 2], [0, 1], ("1", "2")),
    ],
)
def test_labels_become_class_indices_with_names(labels: Any, numbers: list[int], names: tuple[str, ...]) -> None:
    found, found_names = to_classes(labels, "file")
    assert found.dtype == torch.int64
    assert (found.tolist(), found_names) == (numbers, names)


@pytest.mark.slow
@given(st.lists(st.text(min_size=1, max_size=3), min_size=2, max_size=20))
def test_class_names_give_the_labels_back(labels: list[str]) -> None:
    if len(set(labels)) > 1:
        numbers, names = to_classes(labels, "file")
        assert [names[number] for number in numbers.tolist()] == labels
        assert list(names) == sorted(set(labels))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", None, "b"], r"1 label\(s\) are missing, first in row 2"),
        ([1.0, float("nan"), float("nan")], r"2 label\(s\) are missing, first in row 2"),
        (["a", "", "b"], r"1 label\(s\) are missing, first in row 2"),
        ([0.5, 1.0], "labels must be names or integers, got 0.5"),
        ([1 + 2j, 1 + 3j], r"labels must be names or integers, got 1\+2j"),
        ([2**63, 1], r"integer labels must be smaller than 2\*\*63 here, got 9223372036854775808"),
        ([1e300, 1.0], r"integer labels must be smaller than 2\*\*53 here, got 1e\+300"),
        ([float("inf"), 1.0], r"integer labels must be smaller than 2\*\*53 here, got inf"),
        ([float("-inf"), 1.0], r"integer labels must be smaller than 2\*\*53 here, got -inf"),
        ([2.0**53, 1.0], r"integer labels must be smaller than 2\*\*53 here, got 9007199254740992"),
        ([1, 1, 1], "all labels are '1'; at least two classes"),
        ([None, None], "there are no labels"),
        ([], "there are no rows"),
    ],
)
def test_invalid_labels_are_reported(labels: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^file: {message}"):
        to_classes(labels, "file")


def test_all_numeric_types_are_accepted() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": [True, False], "d": pd.array([3, 4], dtype="Int64")})
    numbers = to_numbers(frame, "file")
    assert numbers.dtype == torch.float32
    assert numbers.tolist() == [[1, 0.5, 1, 3], [2, 1.5, 0, 4]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["1", "two"], r"column 'b' is not numeric \('two' in row 2\); leave it out with ignore="),
        ([None, None], "column 'b' is empty"),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), r"column 'b' is not numeric \('2024-01-01 00:00:00' in"),
        ([1j, 2j], "column 'b' is not numeric"),
        ([1.0, float("nan")], r"column 'b' has 1 missing or infinite value, first in row 2"),
        ([float("inf"), 1.0], r"column 'b' has 1 missing or infinite value, first in row 1"),
        ([1.0, 1e39], r"column 'b' has 1 missing or infinite value, first in row 2"),  # too large for float32
        (pd.array([1, None], dtype="Int64"), r"column 'b' has 1 missing or infinite value, first in row 2"),
    ],
)  # fmt: skip
def test_values_that_are_not_numbers_are_reported(column: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^file: {message}"):
        to_numbers(pd.DataFrame({"a": [1, 2], "b": column}), "file")


@pytest.mark.parametrize(
    ("num_rows", "num_labels", "warns"), [(1000, 500, True), (1000, 40, False), (5000, 200, False)]
)
def test_a_label_column_with_suspiciously_many_values_is_reported(
    caplog: pytest.LogCaptureFixture, num_rows: int, num_labels: int, warns: bool
) -> None:
    _, names = to_classes([row % num_labels for row in range(num_rows)], "data file 'x.csv'")
    assert len(names) == num_labels
    assert (f"{num_rows} rows have {num_labels} different labels" in caplog.text) is warns
