"""The quantised call: any function or tensor method of the op table, with quantised operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats import Format
from chop.formats.parts.gradients import step_of_activation
from chop.nn.quantized.rounding import has_numbers, round_first, rounded_to, written_back
from chop.ops import OPS, Op, Operand, function_named, op_of_function, qualified_name


@dataclass(frozen=True, eq=False)
class QuantizedCall:
    """A callable that rounds its operands, then calls a function or tensor method; it is the target of a node.

    `target` is the function, or the name of the tensor method. (A closure could not be pickled.)
    """

    target: Callable[..., Any] | str
    op_name: str
    formats: Mapping[str, Format]
    format_name: str
    writes_back: bool = False
    """Whether the result of an in-place function is also written into the memory of its first argument."""
    scales: Mapping[str, float] = field(default_factory=dict)
    """Calibrated scales by operand; the others are computed in each call."""
    learned: Mapping[str, nn.Parameter | None] = field(default_factory=dict)
    """Learned scales by operand, which are parameters of the model; None: not read yet."""
    is_compiled: bool = False
    """Whether torch.compile makes the functions that round; the results are the same."""

    op: Op = field(init=False, repr=False)
    function: Callable[..., Any] = field(init=False, repr=False)
    """The function that is called; for a tensor method, the function of `torch.Tensor`."""

    def __post_init__(self) -> None:
        is_method = isinstance(self.target, str)
        op = OPS[self.op_name] if isinstance(self.target, str) else op_of_function(self.target)
        object.__setattr__(self, "op", op)
        object.__setattr__(self, "function", getattr(torch.Tensor, str(self.target)) if is_method else self.target)

    @property
    def __name__(self) -> str:
        return f"{self.op_name}_{self.format_name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first: Any = next(iter((*args, *kwargs.values())), None)
        args, kwargs = self.op.map_operands(self._quantize, args, kwargs)
        result = self.function(*args, **kwargs)
        if "data_out_0" in self.formats:
            result = round_first(partial(self._rounded, "data_out_0"), result)
        return written_back(result, first) if self.writes_back else result

    def _quantize(self, name: str, operand: Operand, value: Any) -> Any:
        if name not in self.formats or not isinstance(value, Tensor) or not has_numbers(value):
            return value
        return self._rounded(name, value)

    def scale_of(self, name: str) -> Tensor | None:
        """Return the learned or calibrated scale of an operand; None if it is computed in each call."""
        if name in self.learned:
            return self.learned[name]
        return torch.tensor(self.scales[name]) if name in self.scales else None

    def _rounded(self, name: str, value: Tensor) -> Tensor:
        scale, operand = self.scale_of(name), self.op.operand(name)
        if scale is not None and (operand is None or operand.role == "data_in"):
            scale = step_of_activation(scale, value)
        scale = None if scale is None else scale.to(value.device)
        return rounded_to(self.formats[name], value, scale, self.is_compiled)

    def __reduce__(self) -> tuple[Any, ...]:
        # pickle does not find some functions of torch, which are created inside others; the op table does.
        name = self.target if isinstance(self.target, str) else qualified_name(self.target)
        is_method = isinstance(self.target, str)
        return _restore, (
            name,
            is_method,
            self.op_name,
            dict(self.formats),
            self.format_name,
            self.writes_back,
            dict(self.scales),
            dict(self.learned),
            self.is_compiled,
        )


def _restore(name: str, is_method: bool, *fields: Any) -> QuantizedCall:
    target = name if is_method else function_named(name)
    assert target is not None, f"{name} is not in the op table"
    return QuantizedCall(target, *fields)
