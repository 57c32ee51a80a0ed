"""Layers whose weights are computed from other tensors: `torch.nn.utils.parametrizations`, such as weight norm."""

from __future__ import annotations

from torch import nn
from torch.nn.utils.parametrize import is_parametrized


def check_not_parametrized(layer: nn.Module) -> None:
    """Raise an error for a layer that PyTorch does not copy, and whose weight is not a parameter."""
    if is_parametrized(layer):
        name = next(iter(layer.parametrizations))  # type: ignore[arg-type]  # a ModuleDict
        raise ValueError(
            f"a layer has a parametrised {name}, which cannot be replaced or stored by itself (before the capture, "
            f"call torch.nn.utils.parametrize.remove_parametrizations(layer, '{name}'))"
        )
