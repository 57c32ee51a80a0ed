"""Networks and formats for the tests of exporting."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import quantize_transform_pass
from samples import annotated

IMAGES = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def cnn() -> nn.Module:
    """Return a convolutional network for `IMAGES`."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(45, 7)]
    return nn.Sequential(*layers).eval()


class Block(nn.Module):
    """A transformer block with an embedding, attention as functions, and residual connections."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.position = nn.Parameter(torch.randn(6, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.position
        batch, length, _ = x.shape
        y = self.norm1(x)
        layers = (self.query, self.key, self.value)
        query, key, value = (layer(y).view(batch, length, 2, 8).transpose(1, 2) for layer in layers)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + y.transpose(1, 2).reshape(batch, length, 16)
        x = x + self.down(F.gelu(self.up(self.norm2(x))))
        result: Tensor = x.mean(1)
        return result


TOKENS = torch.randint(0, 50, (20, 6), generator=torch.Generator().manual_seed(2))


def quantized(model: nn.Module, config: dict[str, Any] | None, **inputs: Tensor) -> MaseGraph:
    """Return the graph of a model with one format in all nodes; None: in float."""
    graph = annotated(model, **inputs)
    if config is not None:
        graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    graph.model.eval()
    return graph


def config_of(name: str, **parameters: Any) -> dict[str, Any]:
    """Return the config of a format with the same parameters for all roles."""
    roles = ("data_in", "weight", "bias")
    return {"name": name, **{f"{role}_{key}": value for role in roles for key, value in parameters.items()}}
