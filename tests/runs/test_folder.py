"""The folder of a run: its name, its files, and how they are written and read."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chop.config import TrainConfig
from chop.files import read_toml
from chop.options import read_options
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


def test_no_folder_is_overwritten(tmp_path: Path) -> None:
    assert [RunFolder.create(tmp_path, "run").name for _ in range(3)] == ["run", "run_2", "run_3"]


def test_a_new_run_has_its_options_and_nothing_else(train_config: TrainConfig) -> None:
    folder = RunFolder.create_for(train_config)
    assert read_options(TrainConfig, read_toml(folder.config), "run.toml") == train_config
    assert {path.name for path in folder.path.iterdir()} == {"run.toml", "software"}
    assert (folder.is_run, folder.is_finished, folder.keeps_model) == (True, False, False)


def test_the_options_of_a_run_have_absolute_paths(
    train_config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").touch()
    monkeypatch.chdir(tmp_path)
    config = replace(train_config, model="net.py:Net", load_name=Path("a.ckpt"), data_path=Path("data"))
    kept = read_toml(RunFolder.create_for(replace(config, plugins=(Path("net.py"),), resume=True)).config)
    assert kept["model"] == f"{tmp_path}/net.py:Net"
    assert (kept["load_name"], kept["data_path"]) == (str(tmp_path / "a.ckpt"), str(tmp_path / "data"))
    assert kept["plugins"] == [str(tmp_path / "net.py")]
    assert "resume" not in kept


def test_a_run_is_finished_with_its_summary(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert not folder.is_run
    with pytest.raises(ValueError, match=r"has no summary.json: it was stopped, or is still running"):
        folder.read_summary()
    folder.write_summary({"action": "test"})
    folder.config.touch()
    assert folder.read_summary() == {"action": "test"}
    assert folder.is_run
    assert folder.is_finished


def test_metrics_are_read_as_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_metrics() == []
    folder.write_metrics([{"step": 1, "loss": 0.5}, {"step": 2}])
    assert folder.read_metrics() == [{"step": 1, "loss": 0.5}, {"step": 2}]


def test_the_weights_of_a_run_are_its_graph_or_its_best_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with pytest.raises(ValueError, match=r"keeps no model: it has neither .*transformed_ckpt nor .*best.ckpt"):
        _ = folder.weights
    folder.checkpoints.mkdir(parents=True)
    folder.best_checkpoint.touch()
    assert folder.weights == folder.best_checkpoint
    folder.graph.mkdir(parents=True)
    assert folder.weights == folder.graph


def test_temporary_files_are_removed_and_others_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.search.mkdir()
    for file in (tmp_path / ".12.summary.json", folder.search / ".12.log.json", folder.search_log):
        file.touch()
    folder.remove_temporary_files()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [folder.search_log]


def test_a_new_run_removes_what_a_killed_command_left_in_the_same_output_folder(tmp_path: Path) -> None:
    killed = RunFolder(tmp_path / "killed")
    killed.checkpoints.mkdir(parents=True)
    left = (killed.path / ".99999999.run.toml", killed.checkpoints / ".99999999.last.ckpt")
    for file in (*left, killed.metrics):
        file.touch()
        os.utime(file, (1e9, 1e9))
    RunFolder.create_for(TrainConfig(model="toy", dataset="toy_tiny", project_dir=tmp_path))
    assert [path for path in killed.path.rglob("*") if path.is_file()] == [killed.metrics]


def test_the_start_of_a_run_does_not_depend_on_file_times(tmp_path: Path) -> None:
    before = time.time()
    folder = RunFolder.create_for(TrainConfig(model="toy", dataset="toy_tiny", project_dir=tmp_path))
    os.utime(folder.config, (1e9, 1e9))  # as after copying the folder
    assert folder.started_at is not None
    assert before <= folder.started_at <= time.time()


@pytest.mark.parametrize("text", ["model = 'toy'", "# started yesterday", b"# started \xff"])
def test_the_start_of_a_run_without_a_readable_time_is_that_of_its_file(tmp_path: Path, text: str | bytes) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(folder.config, (1e9, 1e9))
    assert folder.started_at == 1e9


def test_a_run_folder_can_be_used_as_a_path(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert Path(folder) == tmp_path
    assert str(folder) == str(tmp_path)
