"""A run of a model with a recurrent layer and functions: every command that reads it works."""

from __future__ import annotations

from pathlib import Path

import pytest

from chop import cli

NET = """
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, info):
        super().__init__()
        self.gru = nn.GRU(1, 4, batch_first=True)
        self.head = nn.Linear(4 + info.num_features, info.num_classes)

    def forward(self, x):
        h, _ = self.gru(x.unsqueeze(-1))
        return self.head(torch.cat([F.hardswish(x), h[:, -1]], dim=1))
"""
CONFIG = """
[passes.quantize]
by = "type"
[passes.quantize.default.config]
name = "integer"
"""


@pytest.mark.slow
def test_a_transformed_run_is_reported_explained_tested_and_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET, encoding="utf-8")
    Path("quantize.toml").write_text(CONFIG, encoding="utf-8")
    assert cli.main(["transform", "net.py:Net", "toy_tiny", "--config", "quantize.toml"]) == 0
    assert "GRUInteger" in capsys.readouterr().out
    (run,) = (tmp_path / "mase_output").iterdir()
    saved = str(run / "software" / "transform" / "transformed_ckpt")
    assert cli.main(["report", str(run)]) == 0
    assert cli.main(["explain", str(run), "gru"]) == 0
    assert "weight_hh_l0" in capsys.readouterr().out
    assert cli.main(["test", "net.py:Net", "toy_tiny", "--load", saved]) == 0
    assert cli.main(["train", "net.py:Net", "toy_tiny", "--load", saved, "--max-epochs", "1"]) == 0
