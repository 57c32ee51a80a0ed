"""Rounded parameters of a layer that are kept until the parameters change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from chop.formats import Format


class _RoundedParameter(NamedTuple):
    """A rounded parameter, and what it was rounded from."""

    format: Format
    version: tuple[object, ...]
    value: Tensor


_NOTHING: dict[str, _RoundedParameter] = {}


class RoundedParameters(nn.Module):
    """A module with rounded parameters, each valid for a format and a `version` of what it was rounded from."""

    def kept(self, name: str, number_format: Format | None, version: tuple[object, ...]) -> Tensor | None:
        """Return a rounded parameter that is still valid; None if there is none."""
        found: _RoundedParameter | None = self.__dict__.get("_cache", _NOTHING).get(name)
        if found is None or found.format is not number_format or found.version != version:
            return None
        return found.value

    def keep(self, name: str, number_format: Format, version: tuple[object, ...], value: Tensor) -> None:
        """Keep a rounded parameter."""
        self.__dict__.setdefault("_cache", {})[name] = _RoundedParameter(number_format, version, value)

    def share_kept(self, name: str, number_format: Format, other: RoundedParameters) -> None:
        """Take over what another module keeps, if it is in this format."""
        found = other.__dict__.get("_cache", _NOTHING).get(name)
        if found is not None and found.format is number_format:
            self.__dict__.setdefault("_cache", {})[name] = found

    def forget(self) -> None:
        """Drop the rounded parameters; needed only after a change that PyTorch does not record."""
        self.__dict__.pop("_cache", None)

    def train(self, mode: bool = True) -> Self:
        if mode:
            self.forget()
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self.forget()  # after a change of dtype and back, address and version may be the same as before
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self


def forget_rounded(*models: object) -> None:
    """Drop the rounded parameters of all layers in models; they are rounded again when they are needed."""
    for model in models:
        for layer in model.modules() if isinstance(model, nn.Module) else ():
            if isinstance(layer, RoundedParameters):
                layer.forget()


def without_kept(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a module without its rounded parameters."""
    return {key: value for key, value in state.items() if key != "_cache"}


class _StraightThrough(torch.autograd.Function):
    """A cached rounded value whose gradient goes to the original value.

    After a gradient the optimizer changes the parameters, and fused optimizers do not increment `_version`; so
    `backward` drops the cached values.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, rounded: Tensor, layer: RoundedParameters) -> Tensor:
        ctx.layer = layer
        return rounded.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.layer.forget()
        return gradient, None, None


# `Function.apply` is untyped.
straight_through: Callable[[Tensor, Tensor, RoundedParameters], Tensor] = _StraightThrough.apply
