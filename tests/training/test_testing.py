"""`ch test`: the results of a checkpoint, in a run folder."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from chop.config import TestConfig, TrainConfig
from chop.training.testing import run_test

pytestmark = pytest.mark.slow


@pytest.fixture
def config(train_config: TrainConfig) -> TestConfig:
    return TestConfig(model="toy", dataset="toy_tiny", accelerator="cpu", project_dir=train_config.project_dir)


def test_the_files_of_a_run(config: TestConfig, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_test(config).path
    files = {file.name for file in folder.iterdir()}
    assert files == {"run.toml", "metrics.jsonl", "summary.json", "confusion.png", "software"}
    assert "data: toy_tiny (synthetic)" in capsys.readouterr().out
    summary = json.loads((folder / "summary.json").read_text())
    line = json.loads((folder / "metrics.jsonl").read_text())
    assert line["test_accuracy"] == summary["test"]["accuracy"]


def test_untrained_weights_are_a_warning(config: TestConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="chop"):
        run_test(config)
    assert "no checkpoint is loaded: 'toy' has untrained weights" in caplog.text


def test_an_error_leaves_no_folder(config: TestConfig) -> None:
    with pytest.raises(ValueError, match=r"checkpoint 'no.ckpt' does not exist"):
        run_test(replace(config, load_name=Path("no.ckpt")))
    assert not config.project_dir.exists()


NET = """
import torch
from torch import nn


def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
"""


def test_the_accuracy_is_that_of_a_users_own_loop_on_the_same_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop knows nothing of chop: it reads the files, trains on bytes as they are, and counts."""
    torch.manual_seed(1)
    generator = np.random.default_rng(1)
    labels = generator.integers(0, 2, size=400)
    images = generator.integers(0, 100, size=(400, 3, 8, 8), dtype=np.uint8)
    images[:, 0] += (60 * labels[:, None, None]).astype(np.uint8)
    for name, part in (("train", slice(0, 300)), ("test", slice(300, 400))):
        np.savez(tmp_path / f"{name}.npz", x=images[part], y=labels[part])
    (tmp_path / "net.py").write_text(NET)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    x, y = torch.from_numpy(images).float(), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[:300]), y[:300]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (net(x[300:]).argmax(1) == y[300:]).double().mean().item()
    assert 0.6 < accuracy < 1
    torch.save(net.state_dict(), tmp_path / "net.pt")

    caplog.set_level(logging.INFO, logger="chop")
    options = {"test": str(tmp_path / "test.npz"), "normalize": "none"}
    folder = run_test(
        TestConfig(
            model=f"{tmp_path / 'net.py'}:net",
            dataset=str(tmp_path / "train.npz"),
            load_name=tmp_path / "net.pt",
            data_options=options,
            project_dir=tmp_path,
        )
    ).path
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["test"]["accuracy"] == accuracy
    split = "test rows as given, a tenth of the others for validation at random with seed 42"
    expected = {"rows": {"train": 270, "validation": 30, "test": 100}, "shape": [3, 8, 8], "split": split}
    assert expected.items() <= summary["data"].items()
    assert summary["data"]["values"] == "as in the file"
    line = "data: 270 train, 30 validation, 100 test rows of shape [3, 8, 8] [channels, height, width], split "
    assert [text for text in caplog.messages if text.startswith("data:")] == [
        f"{line}{split}; values: as in the file"
    ]
