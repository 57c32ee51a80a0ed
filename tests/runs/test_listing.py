"""The runs of a project: listed, found by name or path, and the latest one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from chop.config import (
    ActionConfig,
    SearchConfig,
    SweepConfig,
    TestConfig,
    TrainConfig,
    TransformConfig,
    common_options,
)
from chop.files import MAX_RECORD_BYTES, CorruptFileError
from chop.passes.graph import quantize_transform_pass, save_mase_graph_interface_pass
from chop.registry import UnknownNameError
from chop.reporting.view.overview import overview_page
from chop.reporting.view.pages import run_page
from chop.reporting.view.run_record import list_records
from chop.runs import RunFolder, find_run, list_runs
from chop.runs.listing import find_run_to_resume, with_run_to_load
from samples import Tiny, annotated
from test_files import SPECIAL_FILES


def make_run(project: Path, name: str, started: int, *, finished: bool = True) -> RunFolder:
    """Make a run folder with the files that a listing looks at."""
    folder = RunFolder.create(project, name)
    folder.config.touch()
    os.utime(folder.config, (started, started))
    if finished:
        folder.summary.write_text("{}")
    return folder


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    for number, started in ((9, 1000), (10, 1000), (2, 2000)):
        make_run(tmp_path, f"toy_{number}", started, finished=False)
    (tmp_path / "not_a_run").mkdir()
    (tmp_path / "note.txt").touch()
    assert [folder.name for folder in list_runs(tmp_path)] == ["toy_2", "toy_10", "toy_9"]
    assert list_runs(tmp_path / "nowhere") == []


@pytest.fixture
def _alarm() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def fail(*_: object) -> None:
        pytest.fail("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("_alarm")
@pytest.mark.parametrize("make", SPECIAL_FILES)
@pytest.mark.parametrize(
    "name", ["run.toml", "summary.json", "grid.json", "metrics.jsonl", "report.html", "software"]
)
def test_a_special_file_in_a_run_folder_leaves_the_other_runs_usable(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    expected = make_run(tmp_path, "whole", 1000)
    broken = make_run(tmp_path, "broken", 500, finished=False)
    (broken.path / name).unlink(missing_ok=True)
    make(broken.path / name)
    assert expected in list_runs(tmp_path)
    assert find_run(None, tmp_path) == expected
    assert "whole" in overview_page(tmp_path, list_records(tmp_path))
    for record in list_records(tmp_path):
        assert run_page(record)


def test_a_summary_that_is_too_large_is_reported_on_its_page(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "run", 1000)
    folder.summary.write_text("{}".ljust(MAX_RECORD_BYTES + 1))
    with pytest.raises(CorruptFileError, match=r"summary.json is not read: it is larger than 8 MiB"):
        folder.read_summary()
    (record,) = list_records(tmp_path)
    assert record.errors == ("summary.json is not read: it is larger than 8 MiB",)


@pytest.mark.parametrize("run", [None, Path("latest")])
def test_the_latest_run_is_the_newest_finished_one(tmp_path: Path, run: Path | None) -> None:
    expected = make_run(tmp_path, "first", 1000)
    make_run(tmp_path, "second", 2000, finished=False)
    assert find_run(run, tmp_path) == expected


def test_a_project_without_finished_runs_is_reported(tmp_path: Path) -> None:
    make_run(tmp_path, "stopped", 1000, finished=False)
    with pytest.raises(ValueError, match=r"there is no finished run in '.*'; use 'project_dir' to"):
        find_run(None, tmp_path)


def test_a_run_is_found_by_name_and_by_any_path_in_it(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "toy", 1000)
    folder.graph.mkdir(parents=True)
    for run in (Path("toy"), folder.path, folder.graph, Path("toy/software")):
        assert find_run(run, tmp_path).path == folder.path


def test_an_unknown_run_names_the_nearest_or_the_newest(tmp_path: Path) -> None:
    for number in range(7):
        make_run(tmp_path, f"run{number}", 1000 + number)
    with pytest.raises(UnknownNameError, match=r"^there is no run 'run10'; did you mean 'run1'\?$"):
        find_run(Path("run10"), tmp_path)
    with pytest.raises(UnknownNameError, match=r"'zz'; the newest are: run6, run5, run4, run3, run2$"):
        find_run(Path("zz"), tmp_path)


def test_the_run_to_resume_is_the_latest_of_the_same_model_and_data(train_config: TrainConfig) -> None:
    project = train_config.project_dir
    names = ("toy_classification_toy_tiny_a", "toy_classification_toy_tiny_b", "toy_classification_jsc_a")
    folders = [make_run(project, name, 1000) for name in names]
    for number, folder in enumerate(folders):
        folder.metrics.touch()
        os.utime(folder.metrics, (1000 + number, 1000 + number))
    assert find_run_to_resume(train_config, lambda folder: folder.metrics) == folders[1]
    assert find_run_to_resume(train_config, lambda folder: folder.metrics, lambda f: f == folders[0]) == folders[0]
    beside = replace(train_config, config=folders[2].config)
    assert find_run_to_resume(beside, lambda folder: folder.metrics) == folders[2]
    assert find_run_to_resume(train_config, lambda folder: folder.search_log) is None


def test_a_name_to_resume_is_not_the_start_of_another_name(train_config: TrainConfig) -> None:
    for name in ("small", "small_2", "smaller"):
        make_run(train_config.project_dir, name, 1000).metrics.touch()
    named = replace(train_config, name="small")
    found = find_run_to_resume(named, lambda folder: folder.metrics)
    assert found is not None
    assert found.name in ("small", "small_2")
    assert find_run_to_resume(replace(train_config, name="smal"), lambda folder: folder.metrics) is None


def test_a_run_to_load_that_does_not_exist_names_the_nearest(train_config: TrainConfig) -> None:
    make_run(train_config.project_dir, "demo-float", 1000)
    with pytest.raises(UnknownNameError, match=r"no run or file is called 'demo-flot'; did you mean 'demo-f"):
        with_run_to_load(replace(train_config, load_name=Path("demo-flot")))


def keep_model(folder: RunFolder, action: str, **summary: object) -> RunFolder:
    folder.write_summary({"action": action, "model": "toy", "dataset": "toy_tiny", **summary})
    folder.graph.mkdir(parents=True)
    return folder


def test_latest_to_load_is_the_newest_run_of_the_model_that_keeps_one(train_config: TrainConfig) -> None:
    project = train_config.project_dir
    trained = keep_model(make_run(project, "a", 1000), "train")
    transformed = keep_model(make_run(project, "b", 2000), "transform")
    make_run(project, "without-model", 3000).write_summary(
        {"action": "train", "model": "toy", "dataset": "toy_tiny"}
    )
    keep_model(make_run(project, "of-another-model", 4000), "train", model="jsc-tiny")

    def loaded(name: str) -> Path | None:
        return with_run_to_load(replace(train_config, load_name=Path(name))).load_name

    assert loaded("latest") == transformed.path
    assert loaded("latest:train") == trained.path
    assert loaded("a") == trained.path
    assert loaded("no.ckpt") == Path("no.ckpt")  # reported when it is loaded
    assert with_run_to_load(train_config).load_name is None
    with pytest.raises(UnknownNameError, match=r"'latest:trian': unknown action 'trian'; did you mean 'train'\?"):
        loaded("latest:trian")
    with pytest.raises(ValueError, match=r"no finished run of ch search in '.*' that keeps 'toy' for 'toy_tiny'"):
        loaded("latest:search")


def test_latest_of_an_action_is_found(tmp_path: Path) -> None:
    first = keep_model(make_run(tmp_path, "a", 1000), "train")
    keep_model(make_run(tmp_path, "b", 2000), "transform")
    assert find_run(Path("latest:train"), tmp_path) == first


def test_commands_that_quantise_load_the_newest_run_in_float(train_config: TrainConfig) -> None:
    project, names = train_config.project_dir, common_options(train_config)
    trained = keep_model(make_run(project, "a", 1000), "train")
    graph = annotated(Tiny(), x=torch.randn(2, 16))
    save_mase_graph_interface_pass(graph, trained.graph)
    quantize_transform_pass(graph, {"by": "type", "linear": {"config": {"name": "integer"}}})
    for started, action in ((2000, "transform"), (3000, "train")):  # the second one is fine-tuned
        save_mase_graph_interface_pass(graph, keep_model(make_run(project, action, started), action).graph)

    def loaded(cls: type[ActionConfig], name: str, **options: Any) -> Path | None:
        return with_run_to_load(cls(**{**names, **options, "load_name": Path(name)})).load_name

    for name in ("latest", "latest:train"):
        assert loaded(SweepConfig, name) == loaded(SearchConfig, name) == trained.path
        assert loaded(TransformConfig, name, passes={"quantize": {}}) == trained.path
        assert loaded(TransformConfig, name) == loaded(TestConfig, name) == project / "train"
    assert loaded(SweepConfig, "latest:transform") == project / "transform"
    shutil.rmtree(trained.path)
    with pytest.raises(ValueError, match="in float: 'train' is quantised; to start from it, use its name"):
        loaded(SweepConfig, "latest")
