"""Learned and calibrated scales of the operands of a quantised layer."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats import Format
from chop.nn.quantized.rounded_parameters import RoundedParameters


class OperandScales(RoundedParameters):
    """A layer whose operands may have a scale, `{role}_scale`: a parameter if it is learned, else a buffer."""

    formats: dict[str, Format]
    """By operand: `data_in_0`, `weight`, `bias`, and `data_out_0` if the result is rounded too."""

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        """Load a state dict; calibrated scales that only it has are added."""
        for name in self.formats:
            key = scale_name(name)
            if prefix + key in state_dict and self.scale_of(name) is None:
                self.register_buffer(key, torch.empty_like(state_dict[prefix + key]))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def scale_of(self, name: str) -> Tensor | None:
        """Return the learned or calibrated scale of an operand; None if it has none or computes it in each call."""
        key = scale_name(name)
        return self._parameters[key] if key in self._parameters else self._buffers.get(key)

    def start_scale(self, name: str, value: Tensor | None) -> None:
        """Add the trainable scale of an operand, `{role}_scale`; initialised from a `value` of the operand."""
        if scale_name(name) in self._parameters:
            return
        start = torch.ones(()) if value is None else self.formats[name].initial_scale(value.detach())
        self.register_parameter(scale_name(name), nn.Parameter(start))

    def fix_scale(self, name: str, scale: float) -> None:
        """Set the scale of an operand, `{role}_scale`: the value of a learned one, else a constant."""
        if scale_name(name) in self._parameters:
            with torch.no_grad():
                self.get_parameter(scale_name(name)).fill_(scale)
            self.forget()
            return
        like = next(self.parameters(), None)
        dtype = torch.get_default_dtype() if like is None else like.dtype
        self.register_buffer(scale_name(name), torch.tensor(scale, dtype=dtype))
        self.forget()

    def take_scales(self, other: OperandScales) -> None:
        """Take over another layer's learned and calibrated scales, for operands whose format is the same."""
        for name, number_format in self.formats.items():
            key = scale_name(name)
            if number_format != other.formats.get(name):
                continue
            if key in other._parameters:
                self._parameters[key] = other._parameters[key]
            elif key in other._buffers:
                self.register_buffer(key, other._buffers[key])


@cache
def scale_name(operand: str) -> str:
    """Return the name of the parameter or buffer that holds an operand's scale."""
    return f"{operand.removesuffix('_0').replace('.', '_')}_scale"
