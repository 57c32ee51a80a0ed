"""A finished run is opened again; missing and corrupt files are reported."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TestConfig, TrainConfig, TransformConfig, TransformTable
from chop.models import get_model
from chop.nn.quantized import QuantizedLayer
from chop.registry import UnknownNameError
from chop.runs import list_runs, open_run
from chop.training.testing import run_test

pytestmark = pytest.mark.slow

INTEGER = {
    "name": "integer",
    "data_in_width": 8,
    "data_in_frac_width": 4,
    "weight_width": 8,
    "weight_frac_width": 4,
}
QUANTIZE = {"quantize": {"by": "type", "linear": {"config": INTEGER}}}
PLUGIN = """
from torch import nn
from chop.models import register_model


@register_model("opened-net")
class Net(nn.Module):
    def __init__(self, info):
        super().__init__()
        self.layer = nn.Linear(info.num_features, info.num_classes)

    def forward(self, x):
        return self.layer(x)
"""


@pytest.fixture
def trained(train_config: TrainConfig) -> Path:
    return train(train_config)


@pytest.fixture
def transform_config(train_config: TrainConfig, trained: Path) -> TransformConfig:
    return TransformConfig(
        model="toy",
        dataset="toy_tiny",
        batch_size=64,
        accelerator="cpu",
        project_dir=train_config.project_dir,
        load_name=trained,
        passes=QUANTIZE,
    )


def best_weights(folder: Path) -> dict[str, Any]:
    content = torch.load(folder / "software/training_ckpts/best.ckpt", weights_only=True)
    return {key.removeprefix("model."): value for key, value in content["state_dict"].items()}


def test_a_training_is_opened_with_its_best_weights(trained: Path, train_config: TrainConfig) -> None:
    run = open_run(trained)
    assert (run.folder.path, run.action, run.name) == (trained, "train", trained.name)
    assert run.config == train_config
    assert run.summary == json.loads((trained / "summary.json").read_text())
    lines = (trained / "metrics.jsonl").read_text().splitlines()
    assert len(run.metrics) == len(lines) > 0
    assert run.metrics[-1] == json.loads(lines[-1])
    assert run.original is None
    for model in (run.experiment.model, run.graph.model):
        assert all(model.state_dict()[key].equal(value) for key, value in best_weights(trained).items())


def test_a_run_names_its_folder_model_and_data(trained: Path) -> None:
    run = open_run(trained)
    assert repr(run) == f"<Run '{trained}': train toy on toy_tiny>"
    assert run.model is run.experiment.model


def test_the_graph_is_annotated_with_one_sample(trained: Path) -> None:
    shapes = {
        meta.node.name: meta.results["data_out_0"].shape for meta in open_run(trained).graph.annotated_metas()
    }
    assert shapes["x"] == [1, 4]


def test_a_transform_is_opened_with_its_formats_and_its_original(
    transform_config: TransformConfig, trained: Path
) -> None:
    run = open_run(transform(transform_config))  # a folder inside the run folder
    assert run.action == "transform"
    assert isinstance(run.config, TransformConfig)
    assert run.config.passes == QUANTIZE
    layers = [layer for layer in run.graph.model.modules() if isinstance(layer, QuantizedLayer)]
    assert [type(layer).__name__ for layer in layers] == ["LinearInteger"] * len(layers)
    assert layers
    assert run.original is not None
    assert not any(isinstance(layer, QuantizedLayer) for layer in run.original.model.modules())
    assert [n.name for n in run.original.fx_graph.nodes] == [n.name for n in run.graph.fx_graph.nodes]
    for key, value in best_weights(trained).items():
        assert run.original.model.state_dict()[key].equal(value)


def test_the_batches_give_the_accuracy_of_the_run(transform_config: TransformConfig) -> None:
    run = open_run(transform(transform_config))
    batches = run.test_batches(10**9)
    assert batches.num_samples == len(run.experiment.data.splits.test.labels)
    assert run.original is not None
    for name, graph in (("before", run.original), ("after", run.graph)):
        model = graph.model.eval()
        right = sum(int((model(**rows).argmax(1) == labels).sum()) for rows, labels in batches.labelled())
        assert right / batches.num_samples == pytest.approx(run.summary["test"][name]["accuracy"])


def test_every_iteration_over_the_batches_starts_at_the_first_row(trained: Path) -> None:
    run = open_run(trained)
    batches = run.test_batches(100)
    for _ in range(2):
        rows = [batch["x"] for batch in batches]
        assert [len(each) for each in rows] == [64, 36]
        assert torch.cat(rows).equal(run.experiment.data.splits.test.features[:100])
    assert batches.labels.equal(run.experiment.data.splits.test.labels[:100])


def test_without_a_checkpoint_the_original_has_the_untrained_weights_of_the_seed(
    transform_config: TransformConfig,
) -> None:
    run = open_run(transform(replace(transform_config, load_name=None, seed=3)))
    assert run.original is not None
    before, after = run.original.model.state_dict(), run.graph.model.state_dict()
    assert all(after[key].equal(value) for key, value in before.items())


def test_without_its_checkpoint_a_run_has_no_original(
    transform_config: TransformConfig, trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = open_run(transform(transform_config))
    shutil.rmtree(trained)
    assert run.original is None
    assert f"cannot be compared with its original: '{trained}' no longer exists" in caplog.text
    assert run.graph.annotated_metas()


def test_a_test_is_opened_with_the_weights_it_tested(transform_config: TransformConfig, trained: Path) -> None:
    config = TestConfig(
        model="toy", dataset="toy_tiny", project_dir=transform_config.project_dir, load_name=trained
    )
    run = open_run(run_test(config).path)
    assert (run.action, run.original) == ("test", None)
    assert run.experiment.model.state_dict()["seq_blocks.0.weight"].equal(
        best_weights(trained)["seq_blocks.0.weight"]
    )


def test_a_run_folder_can_be_loaded_as_a_model(transform_config: TransformConfig, trained: Path) -> None:
    graph = transform(transform_config).parents[1]
    further = train(TrainConfig(**common(transform_config), max_epochs=1, load_name=graph))
    assert (further / "software/transform/transformed_ckpt").is_dir()
    assert any(isinstance(layer, QuantizedLayer) for layer in open_run(further).experiment.model.modules())
    config = TestConfig(**common(transform_config), load_name=further)
    assert (
        open_run(run_test(config).path).summary["test"]["accuracy"] == open_run(further).summary["test"]["accuracy"]
    )


def test_a_trained_graph_is_compared_with_itself_without_formats(
    transform_config: TransformConfig,
) -> None:
    learned = {**INTEGER, "weight_scale": "learned"}
    passes = {"quantize": {"by": "type", "default": {"config": learned}}}
    graph = transform(replace(transform_config, passes=passes))
    run = open_run(
        train(TrainConfig(**common(transform_config), max_epochs=1, load_name=graph / "transformed_ckpt"))
    )
    assert run.original is not None
    assert all(meta.quantized is None for meta in run.original.annotated_metas())
    assert any(meta.quantized is not None for meta in run.graph.annotated_metas())
    names = [[node.name for node in each.fx_graph.nodes] for each in (run.original, run.graph)]
    assert names[0] == names[1]
    plain = get_model("toy", dataset_info=run.experiment.data.dataset_info)
    weights = run.original.model.state_dict()
    assert weights.keys() == plain.state_dict().keys()
    assert all(run.graph.model.state_dict()[key].equal(value) for key, value in weights.items())
    plain.load_state_dict(weights)
    (rows,) = run.test_batches(8)
    assert run.original.model.eval()(**rows).equal(plain.eval()(**rows))


def common(config: TransformConfig) -> dict[str, Any]:
    names = ("model", "dataset", "batch_size", "accelerator", "project_dir")
    return {name: getattr(config, name) for name in names}


def test_a_run_that_keeps_no_model_cannot_be_loaded(transform_config: TransformConfig) -> None:
    folder = run_test(TestConfig(**common(transform_config))).path
    with pytest.raises(ValueError, match=r"keeps no model: it has neither software/transform/transformed_ckpt nor"):
        run_test(TestConfig(**common(transform_config), load_name=folder))


def test_a_plug_in_is_loaded_with_the_run(train_config: TrainConfig, tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(PLUGIN)
    from chop.plugins import load_plugin

    load_plugin(file)
    folder = train(replace(train_config, model="opened-net", plugins=(file,)))
    assert open_run(folder).experiment.model.state_dict().keys() == {"layer.weight", "layer.bias"}
    file.unlink()
    broken = folder / "run.toml"
    broken.write_text(broken.read_text().replace("nets.py", "gone.py"))
    with pytest.raises(ValueError, match=r"Python file '.*gone.py' does not exist"):
        open_run(folder)


def test_a_run_is_found_by_its_name_by_its_path_and_as_the_latest(train_config: TrainConfig, trained: Path) -> None:
    second = train(replace(train_config, max_epochs=1))
    project = train_config.project_dir
    assert open_run(trained.name, project).folder.path == trained
    assert open_run(trained / "software", project).folder.path == trained
    assert open_run(project_dir=project).folder.path == second
    (trained / "run.toml").write_text("# started 2100-01-01\n" + (trained / "run.toml").read_text())
    assert open_run(project_dir=project).folder.path == trained


def test_a_stopped_run_is_listed_but_is_not_the_latest(trained: Path, train_config: TrainConfig) -> None:
    stopped = trained.with_name("zzz")
    stopped.mkdir()
    (stopped / "run.toml").write_text("# started 2100-01-01\n" + (trained / "run.toml").read_text())
    assert [each.path for each in list_runs(train_config.project_dir)] == [stopped, trained]
    assert open_run(None, train_config.project_dir).folder.path == trained
    with pytest.raises(ValueError, match=r"zzz' has no summary.json: it was stopped, or is still running$"):
        open_run(stopped)


def test_an_unknown_run_names_the_nearest(trained: Path, train_config: TrainConfig) -> None:
    project = train_config.project_dir
    with pytest.raises(UnknownNameError, match=rf"^there is no run 'toy_clas.*'; did you mean '{trained.name}'\?$"):
        open_run(trained.name.replace("ssif", "sif"), project)
    for number in range(6):
        (project / f"run{number}").mkdir()
        (project / f"run{number}" / "run.toml").touch()
        os.utime(project / f"run{number}" / "run.toml", (2**31 + number, 2**31 + number))
    with pytest.raises(UnknownNameError, match=r"'zz'; the newest are: run5, run4, run3, run2, run1$"):
        open_run("zz", project)
    with pytest.raises(
        UnknownNameError, match=r"^there is no run 'zz', and '.*nowhere' has no runs; use 'project_dir'"
    ):
        open_run("zz", project / "nowhere")


def test_a_folder_that_is_not_a_run_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a run folder; ch train"):
        open_run(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("summary.json", b"{", r"summary.json is corrupt: Expecting property name"),
        ("summary.json", b"\xff\xfe\xfd", r"summary.json is corrupt: "),
        ("summary.json", b"[" * 100_000, r"summary.json is corrupt: "),
        ("summary.json", b"[]", r"summary.json is corrupt: it does not hold an object$"),
        ("summary.json", b"{}", r"summary.json is corrupt: unknown action 'None'$"),
        ("summary.json", b'{"action": "report"}', r"summary.json is corrupt: unknown action 'report'$"),
        ("run.toml", b"model = ", r"run.toml is corrupt: Invalid value"),
        ("run.toml", b"\xff", r"run.toml is corrupt: "),
        ("run.toml", b"model = 'toy'", r"run.toml: 'dataset' is required$"),
        ("run.toml", b"modle = 'toy'", r"run.toml: unknown key 'modle'; did you mean 'model'\?$"),
    ],
)
def test_corrupt_files_are_reported(trained: Path, file: str, content: bytes, message: str) -> None:
    (trained / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_run(trained)


def test_without_a_log_there_are_no_metrics(trained: Path) -> None:
    (trained / "metrics.jsonl").unlink()
    assert open_run(trained).metrics == []


def test_missing_weights_are_reported_when_they_are_needed(
    trained: Path, transform_config: TransformConfig
) -> None:
    run = open_run(transform(transform_config))
    shutil.rmtree(run.folder.graph)
    with pytest.raises(ValueError, match=r"keeps no model"):
        _ = run.graph
    (trained / "software/training_ckpts/best.ckpt").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"best.ckpt' is corrupt"):
        _ = open_run(trained).graph


def test_a_model_transformed_layer_by_layer_has_no_graph(transform_config: TransformConfig) -> None:
    config = replace(transform_config, transform=TransformTable(style="module"))
    run = open_run(transform(config))
    assert run.summary["action"] == "transform"
    with pytest.raises(ValueError, match=r"changed the model layer by layer: it has no graph to show$"):
        _ = run.graph


def test_a_corrupt_line_of_the_log_is_skipped_with_a_warning(
    trained: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (trained / "metrics.jsonl").write_bytes(b'{"step": 1}\n{"st')
    assert open_run(trained).metrics == [{"step": 1}]
    assert "metrics.jsonl, line 2, is corrupt" in caplog.text
