"""The quantised layer: any layer of the op table, with a format per operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from chop.formats import FORMATS, Format
from chop.formats.learned_step import step_of_activation
from chop.nn.quantized.phase_in import is_partial, phased_in
from chop.nn.quantized.recompute import LARGE_NUMEL, by_slices, recomputed
from chop.ops import OPS, Op, Operand, op_of_module
from chop.registry import closest


class _RoundedParameter(NamedTuple):
    """A rounded parameter, and what it was rounded from."""

    format: Format
    version: tuple[object, ...]
    value: Tensor


_NOTHING: dict[str, _RoundedParameter] = {}


class QuantizedLayer(nn.Module):
    """The base class of `LinearInteger`, `Conv2dBlockFP` and all others.

    Such a class inherits from the layer that it replaces and takes over its parameters, buffers, hooks and
    settings. Parameters stay in float and trainable, and are rounded when they are used. In evaluation mode they
    are rounded once, until they change. (PyTorch does not record changes through `.data`; call `forget` then.)
    """

    base_class: ClassVar[type[nn.Module]]
    op: ClassVar[Op]
    formats: dict[str, Format]
    """By operand: `data_in_0`, `weight`, `bias`, and `data_out_0` if the result is rounded too."""
    cache_weights: bool = True
    """Whether rounded parameters are kept in evaluation mode; False saves their memory and rounds in every call."""
    writes_back: bool = False
    """Whether the result of an in-place layer is also written into the memory of its input."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The operands that are parameters of the layer."""
        return self.op.parameters

    def forward(self, input: Tensor) -> Any:
        if input.numel() >= LARGE_NUMEL and not torch.compiler.is_compiling() and not is_partial():
            y = self._sparing_memory(input)
        else:
            y = self._compute(self.rounded("data_in_0", input))
        if "data_out_0" in self.formats:
            y = round_first(partial(self.rounded, "data_out_0"), y)
        return written_back(y, input) if self.writes_back else y

    def _compute(self, x: Tensor) -> Any:
        """Return the layer's result for rounded data."""
        compute = self.op.compute
        if compute is None:
            return self.base_class.forward(self, x)
        return compute(self, x, *[self.quantized(name) for name in self.parameter_names])

    def _sparing_memory(self, input: Tensor) -> Any:
        """Round and compute without keeping a rounded copy of a large input."""
        number_format = self.formats.get("data_in_0")
        if number_format is None:
            return self._compute(input)
        if torch.is_grad_enabled():
            x = self.rounded("data_in_0", input)
            with recomputed(x, input, number_format, self.scale_of("data_in_0")):
                return self._compute(x)
        batch_from_ndim = self.op.batch_from_ndim
        if (
            batch_from_ndim is not None
            and input.dim() >= batch_from_ndim
            and number_format.rounds_rows_independently(input)
        ):
            return by_slices(lambda rows: self._compute(self.rounded("data_in_0", rows)), input)
        return self._compute(self.rounded("data_in_0", input))

    def rounded(self, name: str, value: Tensor) -> Tensor:
        """Return the rounded value of an operand; integers such as indices are unchanged."""
        number_format = self.formats.get(name)
        if number_format is None or not value.is_floating_point():
            return value
        scale = self.scale_of(name)
        if scale is None:
            return phased_in(value, number_format(value))
        step = scale if name in self.parameter_names else step_of_activation(scale, value)
        return phased_in(value, number_format(value, step))

    def quantized(self, name: str) -> Tensor | None:
        """Return the rounded parameter `name`; None if the layer has none."""
        if not self.training and not torch.is_grad_enabled():
            found = self._found(name)
            if found is not None:
                return found
        value = self._parameter(name)
        mask = None if value is None else self.mask_of(name)
        if value is None or name not in self.formats:
            return value if mask is None or value is None else value * mask
        if mask is not None and self.training:
            value = value * mask  # in evaluation mode, pruned weights are zero already
        if not self._can_cache(name, value):
            return self.rounded(name, value)
        rounded = self._cached(name, value)
        if torch.is_grad_enabled() and value.requires_grad:
            return _straight_through(value, rounded, self)
        return rounded

    def integers(self, name: str) -> tuple[Tensor, Tensor]:
        """Return the parameter `name` as integers and scale: `integers * scale` is `quantized(name)`."""
        value = self._parameter(name)
        if value is None or name not in self.formats:
            known = [each for each in self.parameter_names if each in self.formats]
            raise ValueError(f"{type(self).__name__} has no quantised '{name}'; {closest(name, known)}")
        scale = self.scale_of(name)
        given = () if scale is None else (scale.detach(),)  # formats with a learned or calibrated scale take it
        return self.formats[name].integers(value.detach(), *given)

    def take_rounded(self, name: str, other: QuantizedLayer) -> None:
        """Take over another layer's rounded parameter, if it is in the format that this layer has for it."""
        other.quantized(name)
        cached: dict[str, _RoundedParameter] = other.__dict__.get("_cache", {})
        if name in cached and cached[name].format is self.formats[name]:
            self.__dict__.setdefault("_cache", {})[name] = cached[name]

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

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Load a state dict; calibrated scales that only it has are added."""
        for name in self.formats:
            key = _scale_name(name)
            if prefix + key in state_dict and self.scale_of(name) is None:
                self.register_buffer(key, torch.empty_like(state_dict[prefix + key]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def scale_of(self, name: str) -> Tensor | None:
        """Return the learned or calibrated scale of an operand; None if it has none or computes it in each call."""
        key = _scale_name(name)
        return self._parameters[key] if key in self._parameters else self._buffers.get(key)

    def start_scale(self, name: str, value: Tensor | None) -> None:
        """Add the trainable scale of an operand, `{role}_scale`; initialised from a `value` of the operand."""
        if _scale_name(name) in self._parameters:
            return
        start = torch.ones(()) if value is None else self.formats[name].initial_scale(value.detach())
        self.register_parameter(_scale_name(name), nn.Parameter(start))

    def fix_scale(self, name: str, scale: float) -> None:
        """Set the scale of an operand, `{role}_scale`: the value of a learned one, else a constant."""
        if _scale_name(name) in self._parameters:
            with torch.no_grad():
                self.get_parameter(_scale_name(name)).fill_(scale)
            self.forget()
            return
        like = self._parameter(self.parameter_names[0]) if self.parameter_names else None
        dtype = torch.get_default_dtype() if like is None else like.dtype
        self.register_buffer(_scale_name(name), torch.tensor(scale, dtype=dtype))
        self.forget()

    def mask_of(self, name: str) -> Tensor | None:
        """Return the mask of a pruned parameter: 0 where its values stay zero; None if it is not pruned."""
        return self._buffers.get(_mask_name(name))

    def set_mask(self, name: str, mask: Tensor | None) -> None:
        """Set the mask of a parameter, `{name}_mask`, or remove it with None; the parameter must be zero there."""
        self._buffers.pop(_mask_name(name), None)
        if mask is not None:
            self.register_buffer(_mask_name(name), mask)
        self.forget()

    @property
    def format_label(self) -> str:
        """The end of the class name: the class of the format that names the layer."""
        return type(self).__name__.removeprefix(self.base_class.__name__)

    def take_scales(self, other: QuantizedLayer) -> None:
        """Take over another layer's learned and calibrated scales, for operands whose format is the same."""
        for name, number_format in self.formats.items():
            key = _scale_name(name)
            if number_format != other.formats.get(name):
                continue
            if key in other._parameters:
                self._parameters[key] = other._parameters[key]
            elif key in other._buffers:
                self.register_buffer(key, other._buffers[key])

    def extra_repr(self) -> str:
        shown = [f"{name}={number_format}" for name, number_format in self.formats.items()]
        return ", ".join(part for part in (super().extra_repr(), *shown) if part)

    def _can_cache(self, name: str, value: Tensor) -> bool:
        if self.training or not self.cache_weights or torch.compiler.is_compiling() or value.is_inference():
            return False
        if is_partial():
            return False
        scale = self.scale_of(name)
        learns = scale is not None and scale.requires_grad and torch.is_grad_enabled()
        return self.formats[name].is_repeatable and not learns

    def _found(self, name: str) -> Tensor | None:
        """Return a rounded parameter that is still valid: the short way for most calls without gradients."""
        found = self.__dict__.get("_cache", _NOTHING).get(name)
        value = None if found is None else self._parameters.get(name)
        if (
            found is None
            or value is None
            or is_partial()
            or torch.compiler.is_compiling()
            or not self.cache_weights
        ):
            return None
        same_format = found.format is self.formats.get(name)
        return found.value if same_format and found.version == self._version_of(name, value) else None

    def _version_of(self, name: str, value: Tensor) -> tuple[object, ...]:
        """Return what changes when a parameter or its scale changes."""
        scale = self.scale_of(name)
        return value._version, value.data_ptr(), value.dtype, None if scale is None else scale._version

    def _cached(self, name: str, value: Tensor) -> Tensor:
        version = self._version_of(name, value)
        cached: dict[str, _RoundedParameter] = self.__dict__.setdefault("_cache", {})
        found = cached.get(name)
        if found is None or found.version != version or found.format is not self.formats[name]:
            with torch.no_grad():
                found = cached[name] = _RoundedParameter(self.formats[name], version, self.rounded(name, value))
        return found.value

    def _parameter(self, name: str) -> Tensor | None:
        if name not in self.parameter_names:
            known = closest(name, self.parameter_names)
            raise ValueError(f"{type(self).__name__} has no parameter '{name}'; {known}")
        return cast("Tensor | None", attrgetter(name)(self))

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return _empty_layer, (self.base_class, self.format_label), _without_cache(self.__getstate__())  # type: ignore[no-untyped-call]


class FunctionalLayer(QuantizedLayer):
    """A quantised layer that runs the forward of its base class on rounded inputs and parameters.

    For layers with several inputs or with submodules, such as an LSTM.
    """

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(self.op.parameters_of(self)) if self.op.composite else self.op.parameters

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.op.map_operands(self._rounded_operand, args, kwargs)
        rounded = {name: value for name in self.parameter_names if (value := self.quantized(name)) is not None}
        y = functional_call(plain_layer(self), rounded, args, kwargs)
        return round_first(partial(self.rounded, "data_out_0"), y) if "data_out_0" in self.formats else y

    def _rounded_operand(self, name: str, operand: Operand, value: Any) -> Any:
        return self.rounded(name, value) if isinstance(value, Tensor) else value


class _StraightThrough(torch.autograd.Function):
    """A cached rounded value whose gradient goes to the original value.

    After a gradient the optimizer changes the parameters, and fused optimizers do not increment `_version`; so
    `backward` drops the cached values.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, rounded: Tensor, layer: QuantizedLayer) -> Tensor:
        ctx.layer = layer
        return rounded.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.layer.forget()
        return gradient, None, None


# `Function.apply` is untyped.
_straight_through: Callable[[Tensor, Tensor, QuantizedLayer], Tensor] = _StraightThrough.apply


def quantize_layer(
    layer: nn.Module, formats: Mapping[str, Format], label: str, values: Mapping[str, Tensor | None] | None = None
) -> QuantizedLayer:
    """Return a quantised layer that shares the parameters of `layer`; `label` is the end of its class name.

    If `layer` is quantised already, its formats are replaced. `values` are values of operands, from which
    learned scales are initialised.
    """
    plain = plain_layer(layer) if isinstance(layer, QuantizedLayer) else layer
    new = _empty_layer(type(plain), label)
    new.__dict__.update(_copied_state(plain))
    new.formats = dict(formats)
    for name, number_format in formats.items():
        if number_format.has_learned_scale:
            value = new._parameter(name) if name in new.parameter_names else (values or {}).get(name)
            new.start_scale(name, value)
    return new


def plain_layer(layer: QuantizedLayer) -> nn.Module:
    """Return the layer that a quantised one replaced; it shares all parameters except the scales of formats."""
    plain = layer.base_class.__new__(layer.base_class)
    plain.__dict__.update(_copied_state(layer))
    del plain.__dict__["formats"]
    plain.__dict__.pop("writes_back", None)
    for name in layer.formats:
        plain._parameters.pop(_scale_name(name), None)
        plain._buffers.pop(_scale_name(name), None)
    return plain


def _copied_state(layer: nn.Module) -> dict[str, Any]:
    """Return the state of a layer for another one: containers are copied, their contents are shared."""
    state = _without_cache(vars(layer)).items()
    return {key: value.copy() if isinstance(value, dict | set) else value for key, value in state}


def round_first(rounded: Callable[[Tensor], Tensor], result: Any) -> Any:
    """Return a result with its tensor, or the first of a tuple, rounded; integers such as indices are unchanged."""
    if isinstance(result, tuple):
        items = (round_first(rounded, result[0]), *result[1:])
        return items if type(result) is tuple else type(result)(items)  # torch.max returns a named tuple
    return rounded(result) if isinstance(result, Tensor) and result.is_floating_point() else result


def written_back(result: Tensor, overwritten: Tensor) -> Tensor:
    """Return the result of an in-place op after writing it into the tensor that the op overwrites."""
    return overwritten if result is overwritten else overwritten.copy_(result)


_classes: dict[tuple[type[nn.Module], str], type[QuantizedLayer]] = {}


def layer_class(base: type[nn.Module], label: str) -> type[QuantizedLayer]:
    """Return the class `{base}{label}`, such as LinearInteger; always the same object."""
    if (base, label) in _classes:
        return _classes[base, label]
    op = op_of_module(base)
    if op is None or not op.quantizable:
        raise ValueError(f"{base.__name__} is not a quantisable layer of the op table")
    members = {
        "base_class": base,
        "op": op,
        "__module__": __package__,
        "__doc__": f"{base.__name__}, quantised.",
    }
    several = op.composite or len(op.operands) > 1
    kind = FunctionalLayer if op.compute is None and several else QuantizedLayer
    _classes[base, label] = type(f"{base.__name__}{label}", (kind, base), members)
    return _classes[base, label]


def layer_class_by_name(name: str) -> type[QuantizedLayer] | None:
    """Return the class called `name`, if that is a layer of the op table followed by a format."""
    bases = {module.__name__: module for op in OPS.values() for module in op.modules if op.quantizable}
    for number_format in FORMATS.values():
        base = name.removesuffix(number_format.__name__)
        if base != name and base in bases:
            return layer_class(bases[base], number_format.__name__)
    return None


def _mask_name(parameter: str) -> str:
    return f"{parameter}_mask"


@cache
def _scale_name(operand: str) -> str:
    return f"{operand.removesuffix('_0').replace('.', '_')}_scale"


def _without_cache(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != "_cache"}


def _empty_layer(base: type[nn.Module], label: str) -> QuantizedLayer:
    cls = layer_class(base, label)
    return cls.__new__(cls)
