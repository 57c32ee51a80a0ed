"""The quantised layer: any layer of the op table, with a format per operand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from operator import attrgetter
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from chop.formats import Format
from chop.formats.kernels.run import is_transformed
from chop.formats.parts.gradients import step_of_activation, with_gradient_of
from chop.nn.quantized.operand_scales import OperandScales, scale_name
from chop.nn.quantized.rounded_parameters import without_kept
from chop.nn.quantized.rounding import has_numbers, is_partial, round_first, rounded_to, written_back
from chop.ops import Op, Operand
from chop.registry import closest

LARGE_NUMEL = 2**19
"""The number of elements from which avoiding a copy of a tensor pays off: 2 MB of float32."""
LARGE_IMAGES_NUMEL = 2**22
"""The same for images in evaluation: each call of a convolution rearranges its weights, so slices take longer."""
_NUM_SLICES = 8


class QuantizedLayer(OperandScales):
    """The base class of `LinearInteger`, `Conv2dBlockFP` and all others.

    Such a class inherits from the layer that it replaces and takes over its parameters, buffers, hooks and
    settings. Parameters stay in float and trainable, and are rounded when they are used. In evaluation mode they
    are rounded once, until they change. (PyTorch does not record changes through `.data`; call `forget` then.)
    """

    base_class: ClassVar[type[nn.Module]]
    op: ClassVar[Op]
    cache_weights: bool = True
    """Whether rounded parameters are kept in evaluation mode; False saves their memory and rounds in every call."""
    is_compiled: bool = False
    """Whether torch.compile makes the functions that round; the results are the same."""
    writes_back: bool = False
    """Whether the result of an in-place layer is also written into the memory of its input."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The operands that are parameters of the layer."""
        return self.op.parameters

    def forward(self, input: Tensor) -> Any:
        is_large = input.numel() >= LARGE_NUMEL and not torch.compiler.is_compiling()
        if is_large and not is_partial() and not is_transformed(input):
            y = self._with_rounded_result(self._sparing_memory(input))
        else:
            y = self.forward_rounded(self.rounded("data_in_0", input))
        return written_back(y, input) if self.writes_back else y

    def forward_rounded(self, x: Tensor) -> Any:
        """Return the layer's result for data that is rounded already."""
        return self._with_rounded_result(self._compute(x))

    def can_share_rounded(self, input: Tensor) -> bool:
        """Whether layers with the same format for their input may share its rounded copy, in `forward_rounded`."""
        number_format = self.formats.get("data_in_0")
        if number_format is None or not number_format.is_repeatable or self.scale_of("data_in_0") is not None:
            return False
        has_hooks = self._forward_hooks or self._forward_pre_hooks
        return input.numel() < LARGE_NUMEL and not (self.writes_back or has_hooks or is_partial())

    def _with_rounded_result(self, y: Any) -> Any:
        return round_first(partial(self.rounded, "data_out_0"), y) if "data_out_0" in self.formats else y

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
            and input.numel() >= (LARGE_NUMEL if batch_from_ndim <= 2 else LARGE_IMAGES_NUMEL)
            and number_format.rounds_rows_independently(input)
        ):
            return by_slices(lambda rows: self._compute(self.rounded("data_in_0", rows)), input)
        return self._compute(self.rounded("data_in_0", input))

    def rounded(self, name: str, value: Tensor) -> Tensor:
        """Return the rounded value of an operand; integers such as indices are unchanged."""
        number_format = self.formats.get(name)
        if number_format is None or not has_numbers(value):
            return value
        scale = self.scale_of(name)
        if scale is not None and name not in self.parameter_names:
            scale = step_of_activation(scale, value)
        return rounded_to(number_format, value, scale, self.is_compiled)

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
        if not (torch.is_grad_enabled() and value.requires_grad):
            return rounded
        passed = with_gradient_of(value, rounded)
        # After a gradient the optimizer changes the parameters, and fused optimizers do not increment `_version`.
        passed.register_hook(lambda gradient: self.forget())
        return passed

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
        self.share_kept(name, self.formats[name], other)

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

    def extra_repr(self) -> str:
        shown = [f"{name}={number_format}" for name, number_format in self.formats.items()]
        return ", ".join(part for part in (super().extra_repr(), *shown) if part)

    def _can_cache(self, name: str, value: Tensor) -> bool:
        if self.training or not self.cache_weights or torch.compiler.is_compiling() or value.is_inference():
            return False
        if is_partial() or any(map(is_transformed, self._sources_of(name, value))):
            return False
        scale = self.scale_of(name)
        learns = scale is not None and scale.requires_grad and torch.is_grad_enabled()
        return self.formats[name].is_repeatable and not learns

    def _found(self, name: str) -> Tensor | None:
        """Return a rounded parameter that is still valid: the short way for most calls without gradients."""
        value = self._parameters.get(name)
        if value is None or not self.cache_weights or is_partial() or torch.compiler.is_compiling():
            return None
        return self.kept(name, self.formats.get(name), self._sources_of(name, value))

    def _cached(self, name: str, value: Tensor) -> Tensor:
        sources, number_format = self._sources_of(name, value), self.formats[name]
        found = self.kept(name, number_format, sources)
        if found is None:
            with torch.no_grad():
                found = self.rounded(name, value)
            self.keep(name, number_format, sources, found)
        return found

    def _sources_of(self, name: str, value: Tensor) -> tuple[Tensor, ...]:
        """Return what a rounded parameter follows from: the parameter, and its scale if there is one."""
        scale = self.scale_of(name)
        return (value,) if scale is None else (value, scale)

    def _parameter(self, name: str) -> Tensor | None:
        if name not in self.parameter_names:
            known = closest(name, self.parameter_names)
            raise ValueError(f"{type(self).__name__} has no parameter '{name}'; {known}")
        if name in self._parameters:  # takes less time than an attribute of a module
            return self._parameters[name]
        return cast("Tensor | None", attrgetter(name)(self))


class FunctionalLayer(QuantizedLayer):
    """A quantised layer that runs the forward of its base class on rounded inputs and parameters.

    For layers with several inputs or with submodules, such as an LSTM.
    """

    def can_share_rounded(self, input: Any) -> bool:
        return False

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple(self.op.parameters_of(self)) if self.op.composite else self.op.parameters

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.op.map_operands(self._rounded_operand, args, kwargs)
        rounded = {name: value for name in self.parameter_names if (value := self.quantized(name)) is not None}
        return self._with_rounded_result(functional_call(plain_layer(self), rounded, args, kwargs))

    def _rounded_operand(self, name: str, operand: Operand, value: Any) -> Any:
        return self.rounded(name, value) if isinstance(value, Tensor) else value


def plain_layer(layer: QuantizedLayer) -> nn.Module:
    """Return the layer that a quantised one replaced; it shares all parameters except the scales of formats."""
    plain = layer.base_class.__new__(layer.base_class)
    plain.__dict__.update(copied_state(layer))
    del plain.__dict__["formats"]
    plain.__dict__.pop("writes_back", None)
    for name in layer.formats:
        plain._parameters.pop(scale_name(name), None)
        plain._buffers.pop(scale_name(name), None)
    return plain


def copied_state(layer: nn.Module) -> dict[str, Any]:
    """Return the state of a layer for another one: containers are copied, their contents are shared."""
    state = without_kept(vars(layer)).items()
    return {key: value.copy() if isinstance(value, dict | set) else value for key, value in state}


@cache
def _mask_name(parameter: str) -> str:
    return f"{parameter}_mask"


def by_slices(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Return `compute(rows)`, computed a few rows at a time; `compute` must treat each row independently."""
    result: Tensor | None = None
    done = 0
    for piece in rows.split(max(1, -(-len(rows) // _NUM_SLICES))):
        y = compute(piece)
        if result is None:
            result = y.new_empty((len(rows), *y.shape[1:]))
        result[done : done + len(y)] = y
        done += len(y)
    assert result is not None, "a large tensor has rows"
    return result


def recomputed(
    rounded: Tensor, original: Tensor, number_format: Format, scale: Tensor | None
) -> AbstractContextManager[Any]:
    """Let autograd save `original`, which stays alive anyway, instead of its rounded copy."""
    if rounded is original or not number_format.is_repeatable:
        return nullcontext()
    same = (rounded.data_ptr(), rounded._version, rounded.shape)
    version = original._version

    def pack(saved: Tensor) -> Tensor | None:
        # An in-place op writes its result into the memory of the rounded copy and increments its version.
        return None if (saved.data_ptr(), saved._version, saved.shape) == same else saved

    def unpack(kept: Tensor | None) -> Tensor:
        if kept is not None:
            return kept
        if original._version != version:
            raise RuntimeError("a tensor that a quantised layer needs for its gradient was modified in place")
        with torch.no_grad():
            return number_format(original, scale) if scale is not None else number_format(original)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
