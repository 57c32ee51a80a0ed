"""`ch demo`: the story that the README begins with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chop import cli
from chop.cli.parser import parse
from chop.runs import RunFolder, open_run


@pytest.mark.slow
def test_demo_trains_sweeps_and_quantises_real_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo"]) == 0
    printed = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"^\$ ch (.*)$", printed, re.MULTILINE)]
    assert [parse(words).action for words in commands] == ["train", "sweep", "transform"]

    trained, swept, quantized = (open_run(f"demo-{name}") for name in ("float", "sweep", "quantized"))
    assert trained.summary["test"]["accuracy"] > 0.9
    accuracies = {(row["format"], row["bits"]): row["accuracy"] for row in swept.summary["rows"]}
    assert accuracies["integer", 3] < 0.8 < accuracies["integer", 8]
    test = quantized.summary["test"]
    assert test["before"]["accuracy"] == trained.summary["test"]["accuracy"]
    assert test["after"]["accuracy"] >= test["before"]["accuracy"] - 0.01
    assert RunFolder(quantized.folder.path).report.is_file()
