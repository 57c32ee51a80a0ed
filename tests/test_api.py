"""The Python interface: the names of `chop`, and the functions that do what the commands do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import chop
from chop.dataset import MaseDataModule, Rows
from chop.ir import MaseGraph
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from quick import one_thread_and_no_drawing  # noqa: F401

INTEGER = {
    "name": "integer",
    "data_in_width": 8,
    "data_in_frac_width": 4,
    "weight_width": 8,
    "weight_frac_width": 4,
}
QUANTIZE = {"quantize": {"by": "type", "linear": {"config": INTEGER}}}
SEARCH = {
    "search_space": {"seed": {"default": {"config": {"name": ["integer"], "weight_width": [2, 8]}}}},
    "strategy": {"sw_runner": {"basic_evaluation": {"num_samples": 64}}},
}


ROWS = pd.DataFrame({"a": range(20), "label": [0, 1] * 10})


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"accelerator": "cpu", "batch_size": 64, "project_dir": tmp_path / "out"}


@pytest.fixture
def trained(options: dict[str, Any]) -> chop.Run:
    return chop.train("toy", "toy_tiny", max_epochs=2, learning_rate=0.01, **options)


def test_every_name_can_be_imported_and_has_a_docstring() -> None:
    for name in chop.__all__:
        assert getattr(chop, name).__doc__, name
        assert name in dir(chop)
    with pytest.raises(AttributeError, match="module 'chop' has no attribute 'trian'"):
        _ = chop.trian


@pytest.mark.slow
def test_importing_chop_does_not_import_torch() -> None:
    code = "import sys, chop; assert 'torch' not in sys.modules, 'torch'; assert chop.passes.PASSES"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_only_searches_need_optuna() -> None:
    code = """
import sys
sys.modules["optuna"] = None
import chop
assert chop.open_run and chop.train and chop.report
try:
    chop.search("toy", "toy_tiny")
except ValueError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("chop.search needs optuna, which is not installed: ")


@pytest.mark.slow
def test_train_returns_the_run(trained: chop.Run, options: dict[str, Any]) -> None:
    assert trained.action == "train"
    assert trained.folder.path.parent == options["project_dir"]
    assert trained.summary["steps"] == 24
    assert trained.graph.model(torch.zeros(3, 4)).shape == (3, 2)


@pytest.mark.slow
def test_transform_starts_from_a_run(trained: chop.Run, options: dict[str, Any]) -> None:
    run = chop.transform("toy", "toy_tiny", QUANTIZE, load=trained, **options)
    assert run.summary["checkpoint"] == str(trained.folder)
    assert run.summary["test"]["before"]["accuracy"] == trained.summary["test"]["accuracy"]
    assert any(meta.quantized for meta in run.graph.metas())
    with pytest.raises(ValueError, match="is a run of ch transform; ch train, sweep and search have a plot"):
        chop.plot(run)


@pytest.mark.slow
def test_the_plot_of_a_training_is_a_figure_that_can_be_changed(trained: chop.Run) -> None:
    figure = chop.plot(trained)
    epochs = [each for each in trained.metrics if "val_loss" in each]
    loss = {line.get_label(): np.asarray(line.get_ydata()).tolist() for line in figure.axes[0].lines}
    assert loss["validation"] == [each["val_loss"] for each in epochs]
    figure.axes[0].set_title("changed")
    assert figure.axes[0].get_title() == "changed"


@pytest.mark.slow
def test_options_are_read_from_a_file_and_replaced(options: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "toy.toml"
    file.write_text('model = "toy"\ndataset = "toy_tiny"\nmax_epochs = 9\nseed = 3\n[passes.count_flops]\n')
    run = chop.train(config=file, max_epochs=1, **options)
    assert (run.summary["epochs"], run.summary["seed"]) == (1, 3)
    assert chop.transform(config=str(file), **options).summary["passes"] == ["count_flops"]


@pytest.mark.slow
def test_search_returns_its_run(trained: chop.Run, options: dict[str, Any]) -> None:
    run = chop.search("toy", "toy_tiny", SEARCH, n_trials=3, load=trained, **options)
    assert run.action == "search"
    assert run.folder.best_config.is_file()
    assert run.summary["front"]
    shown = {line.get_label(): line for line in chop.plot(run).axes[0].lines}
    assert np.size(shown["front"].get_xdata()) == run.summary["front"]
    assert "original model" in shown


@pytest.mark.parametrize("name", ["train", "transform", "search"])
def test_a_model_instance_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"chop.{name} needs the name of a model, or a reference such as 'net.py"):
        getattr(chop, name)(nn.Linear(4, 2), "toy_tiny")


def test_an_unknown_option_is_reported() -> None:
    with pytest.raises(ValueError, match=r"chop.train: unknown key 'max_epoch'; did you mean 'max_epochs'"):
        chop.train("toy", "toy_tiny", max_epoch=3)
    with pytest.raises(ValueError, match=r"chop.train needs a data set: chop.train\(model, dataset\)"):
        chop.train("toy")


def loader(rows: Rows) -> list[tuple[Tensor, Tensor]]:
    return list(zip(rows.features.split(7), rows.labels.split(7), strict=True))


@pytest.mark.slow
def test_evaluate_gives_the_test_results_of_a_run(trained: chop.Run) -> None:
    data = trained.experiment.data
    expected = trained.summary["test"]
    for model in (trained.model, trained.graph):
        for given in (data, data.splits.test, loader(data.splits.test)):
            found = chop.evaluate(model, given)
            assert found.accuracy == expected["accuracy"]
            assert found.loss == pytest.approx(expected["loss"])
            assert found.confusion is not None
            assert found.confusion.tolist() == expected["confusion"]


@pytest.mark.slow
def test_evaluate_loads_a_data_set_by_name(trained: chop.Run) -> None:
    assert chop.evaluate(trained.model, "toy_tiny").accuracy == trained.summary["test"]["accuracy"]
    val = chop.evaluate(trained.model, "toy_tiny", split="val")
    assert val.accuracy == trained.summary["validation"]["accuracy"]


def test_evaluate_against_numbers_worked_out_by_hand() -> None:
    batch = torch.tensor([[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]]), torch.tensor([0, 1, 1])
    model = nn.Identity().train()
    found = chop.evaluate(model, [batch])
    losses = [0.6931472, 0.1269280, 2.1269280]  # log 2, log(1 + e^-2), log(1 + e^2)
    assert found.loss == pytest.approx(sum(losses) / 3)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.confusion is not None
    assert found.confusion.tolist() == [[1, 0], [1, 1]]
    assert model.training


def test_what_cannot_be_evaluated_is_reported() -> None:
    batch = torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"needs a torch.nn.Module, a MaseGraph or a Run, got 'toy'; chop.open_run"
    ):
        chop.evaluate("toy", [batch])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"there are no rows to evaluate on"):
        chop.evaluate(nn.Identity(), [])
    with pytest.raises(ValueError, match=r"returns \[rows, classes\]; this one returns \[8\]"):
        chop.evaluate(nn.Flatten(0), [batch])


@pytest.mark.slow
def test_a_run_is_opened_by_name_by_path_and_as_the_latest(
    trained: chop.Run, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = options["project_dir"]
    for run in ("latest", trained.name, trained.folder.path):
        assert chop.open_run(run, project_dir=project).folder == trained.folder
    project.rename(project.with_name("mase_output"))
    monkeypatch.chdir(project.parent)
    assert chop.open_run("latest").name == trained.name


@pytest.mark.slow
def test_a_report_of_a_run(trained: chop.Run, tmp_path: Path) -> None:
    page = chop.report(trained, samples=16, sensitivity=False)
    assert page == trained.folder.report
    assert "<!doctype html>" in page.read_text().lower()
    assert chop.report(trained.folder.path, tmp_path / "a.html", samples=16, sensitivity=False).is_file()


@pytest.mark.slow
def test_a_report_of_a_graph(trained: chop.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = chop.report(trained.graph, tmp_path / "graph.html", data=trained.experiment.data, samples=16, open=True)
    assert "<!doctype html>" in page.read_text().lower()
    assert opened == [page.as_uri()]


@pytest.mark.slow
def test_evaluate_accepts_a_run(trained: chop.Run) -> None:
    assert chop.evaluate(trained, "toy_tiny").accuracy == chop.evaluate(trained.model, "toy_tiny").accuracy


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: chop.train(cast(Any, nn.Linear), "toy_tiny"),
            r"chop.train needs the name of a model.*'net.py:Linear'",
        ),
        (
            lambda: chop.evaluate(nn.Linear(4, 2), "toy_tiny", split=cast(Any, "valid")),
            "unknown split 'valid'; did you mean 'val'",
        ),
        (
            lambda: chop.evaluate(nn.Linear(4, 2), cast(Any, (torch.ones(3, 4), torch.ones(3)))),
            r"for a single batch pass \[\(features, labels\)\]; got tuple$",
        ),
        (lambda: chop.evaluate(nn.Linear(4, 2), cast(Any, ROWS)), "; got DataFrame$"),
        (lambda: chop.report(cast(Any, nn.Linear(4, 2))), r"needs a Run, .* got Linear; create one with MaseGraph"),
        (lambda: chop.export(cast(Any, nn.Linear(4, 2)), "a.onnx"), "chop.export needs a Run, .*; create one with"),
        (lambda: chop.export(MaseGraph(nn.Linear(4, 2)), "a.onnx"), "is not annotated .*; give rows as 'data'$"),
        (
            lambda: chop.train("toy", cast(Any, ROWS)),
            "chop.train needs the name of a data set .* got DataFrame; save",
        ),
        (lambda: chop.transform("toy", "toy_tiny", cast(Any, ROWS)), "'passes' must be a dict, got a DataFrame$"),
        (lambda: chop.open_run(cast(Any, ROWS)), "needs the name or the path of a run, got DataFrame$"),
        (lambda: MaseDataModule(cast(Any, ROWS), 8), "needs the name of a data set or a file, got DataFrame$"),
        (
            lambda: MaseGraph(cast(Any, "net.pt")),
            r"MaseGraph needs a torch.nn.Module, got 'net.pt'; chop.models.get_",
        ),
        (
            lambda: MaseGraph(cast(Any, nn.Linear)),
            r"got the class Linear; create a model of it first: Linear\(...\)",
        ),
    ],
)
def test_a_wrong_argument_gets_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_path_to_weights_or_to_a_run_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    for path, what in ((Path("net.pt"), "a file of weights"), (tmp_path, "a run")):
        with pytest.raises(LookupError, match=f"'{path}' is {what}, not a model: give .* and this as 'load'"):
            chop.train(path, "toy_tiny")


@pytest.mark.slow
@pytest.mark.parametrize("keeps_values", [True, False, None])
def test_a_graph_is_exported_with_what_is_known_of_its_inputs(keeps_values: bool | None, tmp_path: Path) -> None:
    graph, data = MaseGraph(nn.Sequential(nn.Linear(4, 3), nn.ReLU())), None
    if keeps_values is None:  # the graph is not annotated
        data = [(torch.randn(5, 4), torch.zeros(5, dtype=torch.int64))]
    else:
        init_metadata_analysis_pass(graph, None)
        given = {"dummy_in": {"input": torch.randn(5, 4)}, "add_value": keeps_values}
        add_common_metadata_analysis_pass(graph, given)
    exported = chop.export(graph, tmp_path / "net.onnx", data=data)
    assert (exported.proof.num_outputs, exported.proof.explained) == (5, True)
    x = np.ones((2, 4), np.float32)
    (found,) = onnxruntime.InferenceSession(exported.path).run(None, {"input": x})
    np.testing.assert_allclose(found, graph.model(torch.from_numpy(x)).detach().numpy(), atol=1e-6)


def test_lists_of_values_are_reported_with_a_loop() -> None:
    with pytest.raises(ValueError, match=r"chop.train: 'batch_size' takes one value; .* in \[64, 128\]\]"):
        chop.train("toy", "toy_tiny", batch_size=[64, 128])
    with pytest.raises(ValueError, match=r"chop.train: unknown key 'lr'; did you mean 'learning_rate'\?"):
        chop.train("toy", "toy_tiny", lr=0.1)
