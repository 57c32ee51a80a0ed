"""What holds for every registered model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, fx, nn

from chop.dataset import DatasetInfo
from chop.models import MODELS, get_model, get_model_info

SHAPES = {None: (16,), 1: (16,), 3: (3, 16, 16)}  # of a row, by `sample_dims` of the model


def matching_info(name: str) -> DatasetInfo:
    shape = SHAPES[get_model_info(name).sample_dims]
    return DatasetInfo("any", num_features=torch.Size(shape).numel(), num_classes=5, feature_shape=shape)


def build(name: str) -> nn.Module:
    return get_model(name, task="cls", dataset_info=matching_info(name))


def batch(name: str, size: int = 4) -> dict[str, Tensor]:
    return {key: torch.randn(size, *matching_info(name).feature_shape) for key in get_model_info(name).inputs}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_returns_a_score_per_class_also_traced(name: str) -> None:
    model = build(name).eval()
    inputs = batch(name)
    scores = model(**inputs)
    assert scores.shape == (4, 5)
    assert scores.isfinite().all()
    traced = fx.symbolic_trace(model)
    assert [node.name for node in traced.graph.nodes if node.op == "placeholder"] == list(inputs)
    assert traced(**inputs).equal(scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model_can_be_trained(name: str) -> None:
    model = build(name)
    scores = model(**batch(name, 64))
    assert scores.isfinite().all()
    scores.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_every_model_has_a_name_and_a_summary() -> None:
    for name in MODELS:
        assert name == name.lower()
        assert "_" not in name
        assert get_model_info(name).summary.endswith("."), name
