"""Rounded parameters of a layer that are kept until the parameters change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self
from weakref import ref

from torch import Tensor, nn

from chop.formats import Format


class _RoundedParameter(NamedTuple):
    """A rounded parameter, and what it was rounded from."""

    format: Format
    sources: tuple[ref[Tensor], ...]
    version: list[object]
    value: Tensor


_NOTHING: dict[str, _RoundedParameter] = {}


class RoundedParameters(nn.Module):
    """A module with rounded parameters, each valid for a format and its sources: the parameter, and its scale."""

    def kept(self, name: str, number_format: Format | None, sources: Sequence[Tensor]) -> Tensor | None:
        """Return a rounded parameter that is still valid; None if there is none."""
        found: _RoundedParameter | None = self.__dict__.get("_cache", _NOTHING).get(name)
        if found is None or found.format is not number_format:
            return None
        for source, kept in zip(sources, found.sources, strict=True):
            if kept() is not source:  # `functional_call` may give another parameter at the same address
                return None
        return found.value if found.version == _version_of(sources) else None

    def keep(self, name: str, number_format: Format, sources: Sequence[Tensor], value: Tensor) -> None:
        """Keep a rounded parameter, unless it is of inference mode: a later backward pass could not use it."""
        if value.is_inference():
            return
        rounded = _RoundedParameter(number_format, tuple(map(ref, sources)), _version_of(sources), value)
        self.__dict__.setdefault("_cache", {})[name] = rounded

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


def _version_of(sources: Sequence[Tensor]) -> list[object]:
    """Return what changes when the values of tensors change."""
    return [(source._version, source.data_ptr(), source.dtype) for source in sources]


def forget_rounded(*models: object) -> None:
    """Drop the rounded parameters of all layers in models; they are rounded again when they are needed."""
    for model in models:
        for layer in model.modules() if isinstance(model, nn.Module) else ():
            if isinstance(layer, RoundedParameters):
                layer.forget()


def without_kept(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a module without its rounded parameters."""
    return {key: value for key, value in state.items() if key != "_cache"}
