"""What the captured models in the tests share: sizes, batches and counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

HIDDEN, HEADS, LAYERS, WIDE, VOCABULARY = 32, 4, 2, 64, 64
ROWS, LENGTH = 2, 10
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": WIDE,
}
IMAGE_SIZES = {
    **{key: value for key, value in SIZES.items() if key != "vocab_size"},
    "image_size": 16,
    "patch_size": 4,
}


@dataclass(frozen=True)
class RealModel:
    """A model in evaluation mode, a batch of two rows, and its size."""

    model: nn.Module
    batch: dict[str, Tensor]
    macs: int
    """Multiply-accumulates of linear layers, convolutions and attention for the batch."""
    counted: str = "by hand"
    """Who counted them, besides us."""


def tokens() -> dict[str, Tensor]:
    """Return the token ids of two rows."""
    return {"input_ids": torch.arange(ROWS * LENGTH).reshape(ROWS, LENGTH) + 3}


def pixels(size: int, rows: int = ROWS) -> dict[str, Tensor]:
    """Return square images."""
    return {"pixel_values": torch.randn(rows, 3, size, size)}


def counted_by_torch(model: nn.Module, batch: dict[str, Tensor]) -> RealModel:
    """Return a model with the multiply-accumulates that PyTorch counts, in attention as well."""
    model.eval().requires_grad_(False)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(**batch)
    return RealModel(model.requires_grad_(True), batch, counter.get_total_flops() // 2, "by PyTorch")


def with_batch_statistics(model: nn.Module, batch: dict[str, Tensor]) -> nn.Module:
    """Return a model whose batch norms have the statistics of a batch.

    With random weights and the initial statistics, deep networks return values that are tiny (1e-27 in MobileNetV2)
    or, as EfficientNet, all 0.
    """
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(**batch)
    return model
