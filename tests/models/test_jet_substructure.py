"""The jet taggers, layer by layer."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn

from chop.dataset import get_dataset_info
from chop.models import get_model

# BatchNorm1d(n) has 2n parameters, Linear(n, m) nm + m.
# jsc-tiny: 32 + 85. jsc-toy: 32 + 136 + 16 + 72 + 16 + 45 + 10.
# jsc-s: 32 + (16 x 64 + 64 = 1088) + 128 + (64 x 32 + 32 = 2080) + 2 x (32 x 32 + 32 = 1056)
#        + (32 x 5 + 5 = 165) + 10.
PARAMETERS = {"jsc-tiny": 117, "jsc-toy": 327, "jsc-s": 5615}

B, R, L = "BatchNorm1d", "ReLU", "Linear"
LAYERS = {
    "jsc-tiny": [(B, 16), (R,), (L, 16, 5), (R,)],
    "jsc-toy": [
        *[(B, 16), (R,), (L, 16, 8), (B, 8), (R,)],
        *[(L, 8, 8), (B, 8), (R,), (L, 8, 5), (B, 5), (R,)],
    ],
    "jsc-s": [
        *[(B, 16), (R,), (L, 16, 64), (B, 64), (R,), (L, 64, 32), (R,)],
        *[(L, 32, 32), (R,), (L, 32, 32), (R,), (L, 32, 5), (B, 5), (R,)],
    ],
}


def jet_tagger(name: str) -> nn.Module:
    return get_model(name, task="cls", dataset_info=get_dataset_info("jsc"))


def describe(layer: nn.Module) -> tuple[str | int, ...]:
    if isinstance(layer, nn.BatchNorm1d):
        return (B, layer.num_features)
    if isinstance(layer, nn.Linear):
        return (L, layer.in_features, layer.out_features)
    return (type(layer).__name__,)


@pytest.mark.parametrize("name", PARAMETERS)
def test_number_of_parameters(name: str) -> None:
    assert sum(p.numel() for p in jet_tagger(name).parameters() if p.requires_grad) == PARAMETERS[name]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_in_order(name: str) -> None:
    blocks = jet_tagger(name).seq_blocks
    assert isinstance(blocks, nn.Sequential)
    assert [describe(layer) for layer in blocks] == LAYERS[name]


@pytest.mark.parametrize("name", LAYERS)
def test_nodes_are_called_after_seq_blocks(name: str) -> None:
    names = [node.name for node in fx.symbolic_trace(jet_tagger(name)).graph.nodes]
    assert names == ["x", *(f"seq_blocks_{i}" for i in range(len(LAYERS[name]))), "output"]


def test_relu_prints_as_in_the_course() -> None:
    blocks = jet_tagger("jsc-tiny").seq_blocks
    assert isinstance(blocks, nn.Sequential)
    assert str(blocks[1]) == "ReLU(inplace=True)"


def test_the_batch_is_not_changed() -> None:
    x = torch.randn(8, 16)
    before = x.clone()
    jet_tagger("jsc-toy").eval()(x)
    assert x.equal(before)
