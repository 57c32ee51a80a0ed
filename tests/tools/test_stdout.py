"""Silencing standard output."""

from __future__ import annotations

import ctypes

import pytest

from chop.searching.strategies.ilp import silenced_stdout


def test_output_of_compiled_code_is_silenced(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with silenced_stdout():
        ctypes.CDLL(None).puts(b"from compiled code")
    print("after")
    assert capfd.readouterr().out == "before\nafter\n"
