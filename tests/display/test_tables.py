"""Tables and texts that fit the terminal."""

from __future__ import annotations

import pytest

from chop.display.tables import plain_table, wrapped_text

HEADERS = ("trial", "bits per weight", "BitOPs", "nearest uniform")
ROWS = [(7, "4.00", "22,827,499,520", "integer, 4 bits"), (12, "8.00", "9,000", "integer, 8 bits")]
ALIGN = ("right", "right", "right", "left")
WIDE = """\
  trial    bits per weight          BitOPs  nearest uniform
-------  -----------------  --------------  -----------------
      7               4.00  22,827,499,520  integer, 4 bits
     12               8.00           9,000  integer, 8 bits"""
WRAPPED = """\
  trial      bits          BitOPs  nearest
              per                  uniform
           weight
-------  --------  --------------  ---------------
      7      4.00  22,827,499,520  integer, 4 bits
     12      8.00           9,000  integer, 8 bits"""
IN_TWO = """\
  trial      bits          BitOPs
              per
           weight
-------  --------  --------------
      7      4.00  22,827,499,520
     12      8.00           9,000

  trial  nearest
         uniform
-------  ---------------
      7  integer, 4 bits
     12  integer, 8 bits"""


@pytest.mark.parametrize(("columns", "expected"), [(61, WIDE), (60, WRAPPED), (50, WRAPPED), (49, IN_TWO)])
def test_a_table_fits_the_terminal(columns: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert plain_table(HEADERS, ROWS, ALIGN) == expected


def test_a_table_is_not_wrapped_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert plain_table(HEADERS, ROWS, ALIGN) == WIDE


def test_a_column_that_is_wider_than_the_terminal_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "10")
    table = plain_table(("a", "b"), [("1", "x" * 30)], ("left", "left"))
    assert table.endswith("1    " + "x" * 30)


def test_a_text_is_wrapped_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    text = "\nbest: trial 3, perplexity 22.1, bits 4.00"
    assert wrapped_text(text, 6) == text
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert wrapped_text(text, 6) == "\nbest: trial 3,\n      perplexity 22.1,\n      bits 4.00"
