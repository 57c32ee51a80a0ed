"""Arguments of a model's forward that rows do not give: `--cf-arg` and `[cf_args]`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from chop import cli, open_run

NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self, info):
        super().__init__()
        self.layer = nn.Linear(info.num_features, info.num_features)
        self.head = nn.Linear(info.num_features, info.num_classes)

    def forward(self, x, depth, mode="plain", mask=None):
        for _ in range(depth):
            x = self.layer(x)
        if mask is not None:
            x = x * mask
        return self.head(x if mode == "plain" else x.relu())
"""
QUANTIZE = """
[cf_args]
depth = 2
mode = "relu"

[passes.quantize]
by = "type"
[passes.quantize.linear.config]
name = "integer"
"""
SEARCH = """
[cf_args]
depth = 2

[search.search_space.setup]
by = "type"
[search.search_space.seed.linear.config]
name = ["integer"]
weight_width = [4, 8]
[search.strategy.setup]
n_trials = 2
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET, encoding="utf-8")
    return "net.py:Net"


@pytest.mark.slow
def test_a_model_is_trained_tested_transformed_and_reported(net: str) -> None:
    arguments = ["--cf-arg", "depth=2", "--cf-arg", "mode=relu"]
    assert cli.main(["train", net, "toy_tiny", *arguments, "--max-epochs", "1", "--name", "trained"]) == 0
    assert cli.main(["test", net, "toy_tiny", *arguments, "--load", "trained"]) == 0
    Path("quantize.toml").write_text(QUANTIZE, encoding="utf-8")
    command = [
        "transform",
        net,
        "toy_tiny",
        "--config",
        "quantize.toml",
        "--load",
        "trained",
        "--name",
        "quantised",
    ]
    assert cli.main(command) == 0
    assert cli.main(["report", "quantised"]) == 0
    run = open_run("quantised")
    nodes = [node.name for node in run.graph.fx_graph.nodes]
    assert nodes == ["x", "layer", "layer_1", "relu", "head", "output"]
    x = torch.ones(1, 4)
    model = open_run("trained").model
    assert isinstance(model.layer, torch.nn.Linear)
    assert isinstance(model.head, torch.nn.Linear)
    assert model(x).equal(model.head(model.layer(model.layer(x)).relu()))


@pytest.mark.slow
def test_a_search_uses_them_and_is_another_one_with_other_values(
    net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("search.toml").write_text(SEARCH, encoding="utf-8")
    command = ["search", net, "toy_tiny", "--config", "search.toml"]
    assert cli.main(command) == 0
    assert cli.main([*command, "--resume"]) == 0
    capsys.readouterr()
    assert cli.main([*command, "--resume", "--cf-arg", "depth=1"]) == 2
    assert "is a different search: its model has other values of cf_args" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "model 'net.py:Net' takes x, depth, but the data set gives one tensor of shape"),
        ([], "; fix the others with --cf-args NAME=VALUE"),
        (["--cf-arg", "deepth=1"], "cf_args: the forward of model 'net.py:Net' has no argument 'deepth'"),
        (["--cf-arg", "deepth=1"], "; did you mean 'depth'?"),
        (["--cf-arg", "depth=1", "--cf-arg", "x=1"], "leave no argument for the rows of the data set"),
        (["--cf-arg", "depth=many"], "'str' object cannot be interpreted as an integer"),
    ],
)
def test_missing_and_wrong_arguments_are_reported(
    net: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["test", net, "toy_tiny", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("mase_output").exists()
