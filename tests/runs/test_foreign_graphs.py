"""Graphs that only the code of the model can build are loaded with the model of the run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TestConfig, TrainConfig, TransformConfig
from chop.ir import MaseGraph
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph import save_mase_graph_interface_pass
from chop.runs import open_run
from chop.runs.weights import load_model
from chop.training.testing import run_test

NETS = """
import torch
from torch import nn


class Foreign(nn.Module):
    '''A function and a layer that are not in the op table.'''

    def __init__(self, info):
        super().__init__()
        self.first = nn.Linear(info.num_features, 8)
        self.own = Doubled()
        self.last = nn.Linear(8, info.num_classes)

    def forward(self, x):
        return self.last(torch.special.i0e(self.own(self.first(x))))


class Doubled(nn.Linear):
    def __init__(self):
        super().__init__(8, 8)

    def forward(self, x):
        return 2 * super().forward(x)


class Masked(nn.Module):
    def __init__(self, info):
        super().__init__()
        self.first = nn.Linear(info.num_features, info.num_classes)

    def forward(self, x, mask=None, *, scale=2.0):
        x = self.first(x) * scale
        return x if mask is None else x * mask
"""
FORMATS = {"name": "integer", "data_in_width": 8, "weight_width": 8}
PASSES = {"quantize": {"by": "type", "linear": {"config": FORMATS}}}


@pytest.fixture(params=["Foreign", "Masked"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    (tmp_path / "nets.py").write_text(NETS)
    return f"{tmp_path / 'nets.py'}:{request.param}"


@pytest.mark.slow
def test_every_command_reads_the_graph_that_transform_saved(model: str, train_config: TrainConfig) -> None:
    common = {"model": model, "dataset": "toy_tiny", "accelerator": "cpu", "project_dir": train_config.project_dir}
    folder = transform(TransformConfig(**common, passes=PASSES))  # type: ignore[arg-type]
    run = open_run(folder)
    assert any(isinstance(layer, QuantizedLayer) for layer in run.model.modules())
    assert run.original is not None
    tested = open_run(run_test(TestConfig(**common, load_name=run.folder.path)).path)  # type: ignore[arg-type]
    assert tested.summary["test"]["accuracy"] == run.summary["test"]["after"]["accuracy"]
    assert tested.summary["test"]["loss"] == pytest.approx(run.summary["test"]["after"]["loss"], rel=1e-6)
    trained = train(TrainConfig(**common, load_name=run.folder.path, max_steps=1))  # type: ignore[arg-type]
    assert any(isinstance(layer, QuantizedLayer) for layer in open_run(trained).model.modules())


def test_a_graph_of_another_model_is_refused(tmp_path: Path) -> None:
    class Foreign(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.special.i0e(x)
            return result

    save_mase_graph_interface_pass(MaseGraph(Foreign()), tmp_path / "graph")
    assert load_model(tmp_path / "graph", model=Foreign())(torch.zeros(2)).tolist() == pytest.approx([1, 1])
    with pytest.raises(ValueError, match=r"cannot load .*/graph: it holds a different model: its node"):
        load_model(tmp_path / "graph", model=nn.ReLU())
    with pytest.raises(ValueError, match=r"'torch\..*i0e' is not in the op table"):
        load_model(tmp_path / "graph")
