"""The one quantised layer: any layer of the op table, with each operand in a format of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.ops import OPS, Op, op_of_module
from chop.registry import closest


class QuantizedLayer(nn.Module):
    """What `LinearInteger`, `Conv2dBlockFP` and all others have in common.

    Such a class inherits from the layer it stands for and takes over its parameters, buffers, hooks and
    settings; parameters stay in float and trainable, and are rounded each time that they are used.
    """

    base_class: ClassVar[type[nn.Module]]
    op: ClassVar[Op]
    formats: dict[str, Format]
    """By operand: `data_in_0`, `weight`, `bias`, and `data_out_0` if the result is rounded as well."""

    def forward(self, input: Tensor) -> Tensor:
        formats = self.formats
        data_format = formats.get("data_in_0")
        x = input if data_format is None else data_format(input)
        if self.op.compute is None:
            y = cast(Tensor, self.base_class.forward(self, x))
        else:
            y = self.op.compute(self, x, *[self.quantized(operand.name) for operand in self.op.parameters])
        out_format = formats.get("data_out_0")
        return y if out_format is None else out_format(y)

    def quantized(self, name: str) -> Tensor | None:
        """The parameter `name` as the layer computes with it; None if the layer has none."""
        value: Tensor | None = self._parameter(name)
        if value is None or name not in self.formats:
            return value
        return self.formats[name](value)

    def integers(self, name: str) -> tuple[Tensor, Tensor]:
        """The parameter `name` as integers and their scale: `integers * scale` is `quantized(name)`."""
        value = self._parameter(name)
        if value is None or name not in self.formats:
            raise ValueError(f"{type(self).__name__} has no quantised '{name}'; {closest(name, self._held())}")
        return self.formats[name].integers(value.detach())

    def extra_repr(self) -> str:
        shown = [f"{name}={f.name}{tuple(f.precision)}" for name, f in self.formats.items()]
        return ", ".join(part for part in (super().extra_repr(), *shown) if part)

    def _held(self) -> list[str]:
        return [operand.name for operand in self.op.parameters if operand.name in self.formats]

    def _parameter(self, name: str) -> Tensor | None:
        if name not in (operand.name for operand in self.op.parameters):
            known = [operand.name for operand in self.op.parameters]
            raise ValueError(f"{type(self).__name__} has no parameter '{name}'; {closest(name, known)}")
        return cast("Tensor | None", getattr(self, name))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        label = type(self).__name__.removeprefix(self.base_class.__name__)
        return _empty_layer, (self.base_class, label), self.__dict__


def quantize_layer(layer: nn.Module, formats: Mapping[str, Format], label: str) -> QuantizedLayer:
    """A quantised layer in the place of `layer`, sharing its parameters; `label` ends its class name.

    A layer that is quantised already is quantised anew from what it was.
    """
    base = layer.base_class if isinstance(layer, QuantizedLayer) else type(layer)
    new = _empty_layer(base, label)
    # Containers are copied so that the two layers can be changed apart; what they hold is shared.
    state = {key: value.copy() if isinstance(value, dict | set) else value for key, value in vars(layer).items()}
    new.__dict__.update(state, formats=dict(formats))
    return new


_classes: dict[tuple[type[nn.Module], str], type[QuantizedLayer]] = {}


def layer_class(base: type[nn.Module], label: str) -> type[QuantizedLayer]:
    """The class `{base}{label}`, such as LinearInteger; always the same one."""
    if (base, label) in _classes:
        return _classes[base, label]
    op = op_of_module(base)
    assert op is not None, f"{base} is not in the op table"
    members = {"base_class": base, "op": op, "__module__": __package__, "__doc__": f"{base.__name__}, quantised."}
    _classes[base, label] = type(f"{base.__name__}{label}", (QuantizedLayer, base), members)
    return _classes[base, label]


def layer_class_by_name(name: str) -> type[QuantizedLayer] | None:
    """The class that `name` stands for, if it is a layer of the op table followed by a format."""
    bases = {module.__name__: module for op in OPS.values() for module in op.modules if op.quantizable}
    for number_format in FORMATS.values():
        base = name.removesuffix(number_format.__name__)
        if base != name and base in bases:
            return layer_class(bases[base], number_format.__name__)
    return None


def _empty_layer(base: type[nn.Module], label: str) -> QuantizedLayer:
    cls = layer_class(base, label)
    return cls.__new__(cls)
