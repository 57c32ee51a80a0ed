"""Functions whose arguments depend on the mode follow it in the graph too."""

from __future__ import annotations

import copy
import logging
import pickle
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import annotated


class Drops(nn.Module):
    """Its mode decides by position, by keyword, and by a number."""

    mean: Tensor
    var: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = F.batch_norm(x, self.mean, self.var, training=self.training, momentum=0.5)
        x = torch.dropout(x, 0.5, self.training) + F.dropout(x, 0.5, self.training) + torch.ones(4)
        x = x.unsqueeze(0)
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5 if self.training else 0.0)


@pytest.mark.parametrize("traced_in_training", [True, False])
def test_functions_follow_the_mode(traced_in_training: bool) -> None:
    model, x = Drops().train(traced_in_training), torch.randn(64, 4)
    attributes = set(vars(model))
    graph = MaseGraph(model)
    assert model.training is traced_in_training
    assert set(vars(model)) == attributes
    for g in (graph, copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        reference = copy.deepcopy(model)
        assert g.model.eval()(x).equal(reference.eval()(x))
        torch.manual_seed(1)
        trained = g.model.train()(x)
        torch.manual_seed(1)
        assert trained.equal(reference.train()(x))
        model.mean.zero_()  # the first graph shares them, and has updated them
        model.var.fill_(1)


def test_nodes_and_their_names_are_those_of_fx() -> None:
    names = [node.name for node in MaseGraph(Drops()).fx_graph.nodes]
    assert names[:4] == ["x", "mean", "var", "batch_norm"]
    assert "dropout" in names


def test_annotation_and_quantisation_leave_the_mode_alone() -> None:
    x = torch.randn(8, 4)
    graph = annotated(Drops(), x=x)
    graph, _ = quantize_transform_pass(graph, {"by": "type", "batch_norm": {"config": {"name": "float"}}})
    assert graph.model.training
    dropout = next(node for node in graph.fx_graph.nodes if node.name == "dropout")
    assert dropout.args[2] is True
    assert graph.model.eval()(x).equal(Drops().eval()(x))


def test_a_graph_inside_another_model_follows_its_mode() -> None:
    whole = nn.Sequential(MaseGraph(Drops()).model).eval()
    x = torch.randn(8, 4)
    assert whole(x).equal(whole(x))


class Drop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


def test_functions_follow_the_mode_of_their_own_module(tmp_path: Path) -> None:
    model, x = nn.Sequential(Drop(), nn.Sequential(Drop())), torch.ones(64, 4)
    graph = annotated(model, input=x)
    save_mase_graph_interface_pass(graph, tmp_path)
    for g in (graph, pickle.loads(pickle.dumps(graph)), load_mase_graph_interface_pass(None, tmp_path)[0]):
        g.model.train()
        g.model.get_submodule("0").eval()
        assert g.model(x).unique().tolist() == [0.0, 2.0]
        g.model.get_submodule("0").train()
        assert g.model(x).unique().tolist() == [0.0, 4.0]
        assert g.model.eval()(x).equal(x)


def test_a_module_that_is_called_twice_has_one_mode() -> None:
    drop = Drop()
    model, x = nn.Sequential(drop, drop), torch.ones(64, 4)
    graph = MaseGraph(model)
    assert graph.model.train()(x).unique().tolist() == [0.0, 4.0]
    assert graph.model.eval()(x).equal(x)


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x, 0.5, True)
        return x if self.training else x + 1


def test_other_differences_between_modes_are_a_warning_with_the_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        MaseGraph(Branches())
    assert "Branches computes something else in training than in evaluation" in caplog.text
    assert "`return x if self.training else x + 1`" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        MaseGraph(Drops())
    assert not caplog.text
