"""Image classifiers of the package timm."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from chop.display.extras import need
from chop.models.base import DataInfo, ModelInfo, Normalization
from chop.registry import closest

TIMM = "timm/"


def describe_timm(name: str, pretrained: bool) -> ModelInfo:
    """Return the description of `timm/NAME`; `pretrained` downloads its weights."""
    try:
        timm: Any = need("timm", f"model '{name}'")  # a module without types
    except (ImportError, RuntimeError) as error:  # a torchvision for another torch fails while it is imported
        raise ValueError(
            f"model '{name}' needs timm, which cannot be imported because torchvision does not fit this torch: "
            f"{error}"
        ) from error
    architecture = name.removeprefix(TIMM)
    if not timm.is_model(architecture):
        raise ValueError(f"timm has no model '{architecture}'; {closest(architecture, timm.list_models())}")
    config = timm.get_pretrained_cfg(architecture)

    def make(info: DataInfo) -> nn.Module:
        """An image classifier of timm."""
        options = {"num_classes": info.num_classes, "in_chans": info.feature_shape[0]}
        try:
            return cast(nn.Module, timm.create_model(architecture, pretrained=pretrained, **options))
        except (OSError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"model '{name}' cannot be loaded: {reason}") from error

    return ModelInfo(
        name=name,
        make=make,
        inputs=("x",),
        tasks=("cls",),
        summary="An image classifier of timm.",
        sample_dims=3,
        normalization=None if config is None else Normalization(tuple(config.mean), tuple(config.std)),
        has_weights=pretrained,
    )
