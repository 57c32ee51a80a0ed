"""`ch train` learns, keeps everything in a run folder, and reports errors before it writes."""

from __future__ import annotations

import json
import logging
import signal
import tomllib
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from chop.actions.train import train
from chop.config import TestConfig, TrainConfig
from chop.dataset import get_dataset_info
from chop.models import get_model
from chop.options import read_options
from chop.runs.weights import load_model
from chop.training.devices import has_bf16
from chop.training.loop import TrainingLoop
from chop.training.testing import run_test

pytestmark = pytest.mark.slow

CHECKPOINTS = Path("software/training_ckpts")


def weights(folder: Path, name: str = "last.ckpt") -> dict[str, Tensor]:
    state: dict[str, Tensor] = torch.load(folder / CHECKPOINTS / name, weights_only=True)["state_dict"]
    return state


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return list(first) == list(second) and all(first[key].equal(second[key]) for key in first)


def summary(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return content


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_files_of_a_run(train_config: TrainConfig) -> None:
    folder = train(train_config)
    assert folder == train_config.project_dir / f"toy_classification_toy_tiny_{date.today().isoformat()}"
    files = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    (events,) = (folder / "software/tensorboard").iterdir()
    assert files == {
        ".lock",
        "run.toml",
        "metrics.jsonl",
        "summary.json",
        "curves.png",
        "confusion.png",
        "software/training_ckpts/best.ckpt",
        "software/training_ckpts/last.ckpt",
        f"software/tensorboard/{events.name}",
    }
    for plot in ("curves.png", "confusion.png"):
        assert (folder / plot).read_bytes().startswith(b"\x89PNG")


def test_the_second_run_of_a_day_has_a_new_folder(train_config: TrainConfig) -> None:
    config = replace(train_config, max_epochs=1)
    first, second = train(config), train(config)
    assert second.name == f"{first.name}_2"
    assert same(weights(first), weights(second))


def test_a_network_learns(train_config: TrainConfig) -> None:
    content = summary(train(replace(train_config, max_epochs=30, batch_size=32)))
    assert content["test"]["accuracy"] > 0.9
    assert content["best_epoch"] > 1
    assert content["validation"]["accuracy"] > 0.9


def test_the_summary_identifies_the_run(train_config: TrainConfig) -> None:
    content = summary(train(replace(train_config, seed=7)))
    assert content["parameters"] == 4 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2
    assert (content["seed"], content["task"], content["epochs"], content["steps"]) == (7, "classification", 2, 24)
    assert content["versions"]["torch"] == torch.__version__
    assert content["data"]["version"] in content["data"]["title"]
    assert len(content["data"]["sha256"]) == 64
    confusion = torch.tensor(content["test"]["confusion"])
    assert confusion.sum() == 200
    assert confusion.diagonal().sum() / 200 == pytest.approx(content["test"]["accuracy"])


def test_the_run_file_repeats_the_run(train_config: TrainConfig, tmp_path: Path) -> None:
    folder = train(
        replace(train_config, seed=3, lr_scheduler="cosine", weight_decay=0.1, data_options={"num_rows": 500})
    )
    table = tomllib.loads((folder / "run.toml").read_text())
    again = train(replace(read_options(TrainConfig, table, "run.toml"), project_dir=tmp_path / "again"))
    assert same(weights(folder), weights(again))


def test_the_run_file_can_be_used_from_another_folder(
    train_config: TrainConfig, dropout_net: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = train(replace(train_config, model="net.py:Dropout", max_epochs=1))
    assert folder.name.startswith("Dropout_classification_toy_tiny_")
    assert tomllib.loads((folder / "run.toml").read_text())["model"] == dropout_net


def test_metrics_have_a_line_per_epoch_and_every_n_steps(train_config: TrainConfig) -> None:
    found = lines(train(replace(train_config, log_every_n_steps=6)))
    assert [line["step"] for line in found] == [6, 12, 12, 18, 24, 24]
    epochs = [line for line in found if "val_loss" in line]
    assert [line["epoch"] for line in epochs] == [1, 2]
    assert set(epochs[0]) == {
        "step", "epoch", "learning_rate", "train_loss", "train_accuracy", "val_loss", "val_accuracy",
    }  # fmt: skip


def test_one_line_per_epoch_and_a_table_are_printed(
    train_config: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    train(train_config)
    out, err = capsys.readouterr()
    assert err.count("\n") == 2
    assert "epoch   1  loss 0." in err
    assert "samples/s" in err
    assert "data: toy_tiny (synthetic)\nbest epoch: " in out
    assert "test samples by true class (rows) and predicted class (columns)" in out
    assert "outside" in out


def test_the_best_checkpoint_is_from_the_best_epoch(train_config: TrainConfig) -> None:
    folder = train(replace(train_config, max_epochs=6, learning_rate=0.05))
    best = torch.load(folder / CHECKPOINTS / "best.ckpt", weights_only=True)
    epochs = [line for line in lines(folder) if "val_loss" in line]
    expected = max(epochs, key=lambda line: (line["val_accuracy"], -line["val_loss"]))["epoch"]
    assert best["epoch"] == expected == summary(folder)["best_epoch"]


@pytest.mark.parametrize("load_type", ["pl", "auto"])
def test_load_model_reads_a_checkpoint(train_config: TrainConfig, load_type: str) -> None:
    folder = train(replace(train_config, max_epochs=1))
    model = get_model("toy", dataset_info=get_dataset_info("toy_tiny"))
    load_model(folder / CHECKPOINTS / "best.ckpt", load_type, model)
    assert same({f"model.{key}": value for key, value in model.state_dict().items()}, weights(folder, "best.ckpt"))


def test_ch_test_gives_the_results_of_the_training(train_config: TrainConfig) -> None:
    folder = train(train_config)
    config = TestConfig(
        model="toy", dataset="toy_tiny", load_name=folder / CHECKPOINTS / "best.ckpt", accelerator="cpu",
        batch_size=train_config.batch_size, project_dir=train_config.project_dir,
    )  # fmt: skip
    tested = summary(run_test(config).path)
    assert tested["test"] == summary(folder)["test"]
    assert tested["action"] == "test"


def test_training_starts_from_a_checkpoint(train_config: TrainConfig) -> None:
    first = train(replace(train_config, max_epochs=3))
    config = replace(train_config, load_name=first / CHECKPOINTS / "best.ckpt", learning_rate=0.0, max_epochs=1)
    assert same(weights(train(config)), weights(first, "best.ckpt"))


def test_the_seed_decides_everything(train_config: TrainConfig, dropout_net: str) -> None:
    config = replace(train_config, model=dropout_net)
    torch.manual_seed(1)
    first = weights(train(config))
    torch.manual_seed(2)
    assert same(weights(train(config)), first)
    assert not same(weights(train(replace(config, seed=1))), first)


@pytest.mark.parametrize(
    ("change", "steps"), [({"max_steps": 5}, 5), ({"max_steps": 15}, 15), ({"max_steps": 99}, 24)]
)
def test_max_steps_ends_a_run(train_config: TrainConfig, change: dict[str, Any], steps: int) -> None:
    assert summary(train(replace(train_config, **change)))["steps"] == steps


def test_accumulated_gradients_make_the_step_of_one_large_batch(train_config: TrainConfig) -> None:
    config = replace(train_config, learning_rate=0.1, training_optimizer="sgd")
    large = weights(train(replace(config, batch_size=64)))
    small = weights(train(replace(config, batch_size=16, accumulate_grad_batches=4)))
    for key in large:
        assert torch.allclose(large[key], small[key], atol=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("scheduler", ["none", "cosine", "linear", "step"])
def test_every_optimizer_works_with_every_schedule(
    train_config: TrainConfig, optimizer: Any, scheduler: Any
) -> None:
    config = replace(train_config, training_optimizer=optimizer, lr_scheduler=scheduler, max_epochs=1)
    assert summary(train(config))["steps"] == 12


@pytest.mark.parametrize("precision", ["bf16", "64", "bf16-true"])
def test_other_precisions_train(train_config: TrainConfig, precision: Any) -> None:
    if "bf16" in precision and not has_bf16():
        pytest.skip("this machine announces bfloat16 instructions that it cannot run")
    content = summary(train(replace(train_config, trainer_precision=precision, max_epochs=1)))
    assert content["test"]["loss"] < 0.8


def test_batch_norm_works_if_one_row_is_left_over(train_config: TrainConfig) -> None:
    config = replace(train_config, model="jsc-tiny", dataset="jsc", data_options={"num_rows": 90}, max_epochs=1)
    assert summary(train(replace(config, batch_size=32)))["steps"] == 2  # 65 rows: 32 + 33


def test_a_loss_that_is_nan_is_a_warning(train_config: TrainConfig, caplog: pytest.LogCaptureFixture) -> None:
    config = replace(train_config, learning_rate=1e30, training_optimizer="sgd")
    with caplog.at_level(logging.WARNING, logger="chop"):
        train(config)
    assert "the loss is nan; try a smaller learning rate" in caplog.text


def test_a_missing_gpu_is_a_warning(train_config: TrainConfig, caplog: pytest.LogCaptureFixture) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a gpu")
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert summary(train(replace(train_config, accelerator="gpu", max_epochs=1)))["device"] == "cpu"
    assert "accelerator 'gpu' is not available on this machine: running on the CPU" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "tooy"}, "unknown model 'tooy'; did you mean 'toy'?"),
        ({"dataset": "jcs"}, "unknown data set 'jcs'; did you mean 'jsc'?"),
        ({"load_name": Path("no.ckpt")}, "checkpoint 'no.ckpt' does not exist"),
        ({"max_steps": 0}, "'max_steps' must be 1 or more, or -1 for no limit, got 0"),
        ({"report_to": "wandb"}, "report_to 'wandb' needs wandb, which is not installed: "),
        ({"strategy": "fsdp"}, "strategy 'fsdp' is not supported"),
    ],
)
def test_an_error_is_reported_and_leaves_no_folder(
    train_config: TrainConfig, change: dict[str, Any], message: str
) -> None:
    with pytest.raises((LookupError, ValueError)) as caught:
        train(replace(train_config, **change))
    assert str(caught.value).startswith(message)
    assert not train_config.project_dir.exists()


def test_a_model_that_does_not_fit_the_data_is_reported(train_config: TrainConfig, tmp_path: Path) -> None:
    code = "from torch import nn\nclass Net(nn.Linear):\n    def forward(self, x): return super().forward(x)\n"
    code += "def wide(): return Net(4, 3)\ndef deep(): return Net(5, 2)\n"
    (tmp_path / "own.py").write_text(code)
    with pytest.raises(ValueError, match=r"returns \[2, 3\] for 2 rows; .* needs \[2, 2\], one score per class"):
        train(replace(train_config, model=f"{tmp_path}/own.py:wide"))
    with pytest.raises(ValueError, match=r"does not accept rows of shape \[2, 4\] from 'toy_tiny': mat1 and mat2"):
        train(replace(train_config, model=f"{tmp_path}/own.py:deep"))
    assert not train_config.project_dir.exists()


def test_a_project_folder_that_cannot_be_written_is_reported(train_config: TrainConfig) -> None:
    train_config.project_dir.write_text("")
    with pytest.raises(OSError, match=r"cannot write in .*out: Not a directory"):
        train(train_config)


def call_after_step(monkeypatch: pytest.MonkeyPatch, step: int, action: Any) -> None:
    update = TrainingLoop.update

    def update_and_call(self: TrainingLoop, group: Any, num_rows: int) -> Tensor:
        loss = update(self, group, num_rows)
        if self.step + 1 == step:
            action()
        return loss

    monkeypatch.setattr(TrainingLoop, "update", update_and_call)


@pytest.mark.parametrize("step", [5, 12, 17])
def test_ctrl_c_saves_a_checkpoint_that_can_be_resumed(
    train_config: TrainConfig,
    dropout_net: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: int,
) -> None:
    config = replace(train_config, model=dropout_net, lr_scheduler="cosine", max_epochs=3)
    complete = train(replace(config, project_dir=config.project_dir / "complete"))
    with monkeypatch.context() as patch:
        call_after_step(patch, step, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            train(config)
    (folder,) = (path for path in config.project_dir.iterdir() if path.name != "complete")
    assert f"To resume:\n  ch train --config {folder / 'run.toml'} --resume\n" in capsys.readouterr().err
    assert torch.load(folder / CHECKPOINTS / "last.ckpt", weights_only=True)["step"] == step
    assert train(replace(config, resume=True)) == folder
    assert same(weights(folder), weights(complete))
    assert same(weights(folder, "best.ckpt"), weights(complete, "best.ckpt"))
    assert lines(folder) == lines(complete)
    assert summary(folder)["test"] == summary(complete)["test"]
