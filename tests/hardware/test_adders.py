"""Adder graphs multiply by their matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chop.hardware import adders
from chop.hardware.adders import has_alkaid, signed_digits, solve, solve_alkaid, solve_csd

needs_alkaid = pytest.mark.skipif(not has_alkaid(), reason="alkaid is not installed")
MATRICES = st.tuples(
    st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**31), st.integers(1, 9), st.floats(0, 1)
)


def matrix_of(sample: tuple[int, int, int, int, float]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    outputs, inputs, seed, bits, zeros = sample
    random = np.random.default_rng(seed)
    values = random.integers(-(2**bits), 2**bits + 1, (outputs, inputs))
    return np.where(random.random(values.shape) < zeros, 0, values)


def test_signed_digits_by_hand() -> None:
    assert signed_digits(7) == [(0, -1), (3, 1)]
    assert signed_digits(-6) == [(1, 1), (3, -1)]
    assert signed_digits(0) == []


@given(MATRICES)
def test_signed_digits_multiply_by_the_matrix(sample: tuple[int, int, int, int, float]) -> None:
    matrix = matrix_of(sample)
    assert np.array_equal(solve_csd(matrix).matrix, matrix)


@needs_alkaid
@given(MATRICES)
def test_alkaid_multiplies_by_the_matrix_and_its_ranges_hold(sample: tuple[int, int, int, int, float]) -> None:
    matrix = matrix_of(sample)
    ranges = [(0, 127) if i % 2 else (-8, 7) for i in range(matrix.shape[1])]
    graph = solve_alkaid(matrix, ranges)
    x = np.stack([np.random.default_rng(0).integers(low, high + 1, 200) for low, high in ranges], axis=1)
    assert np.array_equal(graph.run(x), x @ matrix.T)
    corners = np.array([[low for low, _ in ranges], [high for _, high in ranges]])
    values = [*x.T, *[None] * len(graph.additions)]
    for i, each in enumerate(graph.additions):
        values[graph.num_inputs + i] = each.apply(values[each.left], values[each.right])
    for value, (low, high) in zip(values, graph.ranges(ranges), strict=True):
        assert value is not None
        assert low <= value.min() <= value.max() <= high
    assert graph.run(corners).shape == (2, len(matrix))


@needs_alkaid
def test_solutions_are_kept_on_disk_and_replaced_if_corrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    matrix = np.array([[3, -5], [7, 11]])
    first = solve(matrix, [(0, 3), (-4, 3)])
    (path,) = tmp_path.glob("**/*.json")
    monkeypatch.setattr(adders, "solve_alkaid", lambda *_: pytest.fail("the solution is on disk"))
    assert solve(matrix, [(0, 3), (-4, 3)]) == first
    monkeypatch.undo()
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    path.write_text("{")
    assert solve(matrix, [(0, 3), (-4, 3)]) == first


@needs_alkaid
def test_inputs_that_are_always_zero_cost_nothing() -> None:
    graph = solve(np.array([[3, 5], [1, 7]]), [(0, 0), (0, 7)])
    assert graph.matrix[:, 0].tolist() == [0, 0]


def test_without_alkaid_signed_digits_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adders, "has_alkaid", lambda: False)
    matrix = np.array([[3, -5], [7, 11]])
    assert solve(matrix, [(0, 3), (-4, 3)]) == solve_csd(matrix)
