"""`ch info`: prints tables and pages, and plots a format."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop import cli
from chop.formats import FORMATS
from chop.info import describe


@pytest.mark.slow
def test_table_and_page_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "formats"]) == 0
    assert capsys.readouterr().out == describe("formats") + "\n"
    assert cli.main(["info", "formats", "integer"]) == 0
    assert capsys.readouterr().out == describe("formats", "integer") + "\n"


def test_a_table_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main(["info", "formats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert {line.split()[0] for line in lines if line[:1].strip()} >= set(FORMATS)


@pytest.mark.slow
def test_png_is_a_plot_of_the_values_of_a_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "integer.png"
    assert cli.main(["info", "formats", "integer", "--png", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == describe("formats", "integer") + "\n"


@pytest.mark.parametrize("words", [["formats"], ["models"], ["models", "toy"]])
def test_png_needs_the_name_of_a_format(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "integer.png"
    assert cli.main(["info", *words, "--png", str(path)]) == 2
    message = "ch: error: info: --png plots the values of one format: ch info formats NAME --png PATH\n"
    assert capsys.readouterr().err == message
    assert not path.exists()


@pytest.mark.slow
def test_kinds_are_listed_if_none_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["models", "datasets", "formats", "presets", "passes", "ops"]
    assert lines[2][1:] == [str(len(FORMATS)), "ch", "info", "formats"]
