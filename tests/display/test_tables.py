"""Tables for papers and notebooks; tables and texts that fit the terminal."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chop.display.tables import Measured, Table, plain_table, wrapped_text

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


RESULTS = Table(
    ("format", "accuracy", "weight_bits", "bitops", "parameters", "own_count", "accuracy_change", "sqnr_db"),
    [
        ("integer & 8 bits", Measured(0.9231, 0.00412), 11_776, 22_827_499_520, 1472, 3.25, -0.021, 33.23),
        ("mx_fp4", Measured(0.9, 0.005), 1_180_000_000, 3_261_071_360, 117, 8, 0.0, math.inf),
        ("none", None, None, 22_827_499_520, 1472, 8, 0.0021, None),
    ],
    "digits, 1797 rows",
)
LATEX = r"""\begin{tabular}{lrrrrrrr}
  \toprule
  Format            &    Accuracy (\%) & Weight memory (kB) & BitOPs (G) & Parameters & Own count & Change in accuracy (points) & SQNR (dB) \\
  \midrule
  integer \& 8 bits & 92.31 $\pm$ 0.41 &              1.472 &     22.827 &      1,472 &      3.25 &                     $-$2.10 &      33.2 \\
  mx\_fp4           & 90.00 $\pm$ 0.50 &        147,500.000 &      3.261 &        117 &      8.00 &                       +0.00 &  $\infty$ \\
  none              &                - &                  - &     22.827 &      1,472 &      8.00 &                       +0.21 &         - \\
  \bottomrule
\end{tabular}"""  # noqa: E501


def test_a_table_in_latex_has_aligned_columns_units_thousands_separators_and_the_lines_of_booktabs() -> None:
    assert RESULTS.to_latex() == LATEX


def test_a_table_is_printed_as_markdown_below_its_caption_and_shown_in_notebooks() -> None:
    lines = str(RESULTS).split("\n")
    assert lines[:2] == ["digits, 1797 rows", ""]
    assert "\n".join(lines[2:]) == RESULTS.to_markdown()
    assert [cell.strip() for cell in lines[4].split("|")[1:4]] == ["integer & 8 bits", "92.31 ± 0.41", "1.472"]
    assert "<caption>digits, 1797 rows</caption>" in RESULTS._repr_html_()
    assert "<td>integer &amp; 8 bits</td><td>92.31 ± 0.41</td><td>1.472</td>" in RESULTS._repr_html_()


def test_a_table_as_csv_has_all_digits_and_the_standard_errors_in_a_column_of_their_own(tmp_path: Path) -> None:
    text = RESULTS.to_csv(tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == text + "\n"
    assert text.split("\n")[:2] == [
        "format,accuracy,accuracy_error,weight_bits,bitops,parameters,own_count,accuracy_change,sqnr_db",
        "integer & 8 bits,0.9231,0.00412,11776,22827499520,1472,3.25,-0.021,33.23",
    ]
    assert text.split("\n")[3] == "none,,,,22827499520,1472,8,0.0021,"
    assert RESULTS.to_pandas()["accuracy_error"].tolist()[:2] == [0.00412, 0.005]
    assert RESULTS.column("parameters") == [1472, 117, 1472]


def test_a_table_without_rows_has_its_headers() -> None:
    assert "Format & Accuracy (\\%)" in Table(("format", "accuracy"), []).to_latex()
    assert "| Format   | Accuracy (%)   |" in str(Table(("format", "accuracy"), []))
