"""The folder of a run: its name, and that nothing in it is ever written over."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from chop.config import TrainConfig
from chop.files import write_text
from chop.runs import RunFolder
from chop.runs.folder import run_prefix


@pytest.mark.parametrize(
    ("model", "dataset", "expected"),
    [
        ("jsc-toy", "jsc", "jsc-toy_classification_jsc_"),
        ("nets/my.py:Net", "data/jets.csv", "Net_classification_jets_"),
        ("pack.age:Net", "own.py:Jets", "Net_classification_Jets_"),
    ],
)
def test_a_folder_is_named_after_model_task_and_data(
    train_config: TrainConfig, model: str, dataset: str, expected: str
) -> None:
    assert run_prefix(replace(train_config, model=model, dataset=dataset)) == expected


def test_no_folder_is_used_twice(tmp_path: Path) -> None:
    assert [RunFolder.create(tmp_path, "run").name for _ in range(3)] == ["run", "run_2", "run_3"]


def test_a_text_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(*_: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
