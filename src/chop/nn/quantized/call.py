"""The one quantised call: any function or tensor method of the op table, with its operands in formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from chop.formats import Format
from chop.ops import OPS, Op, Operand


@dataclass(frozen=True, eq=False)
class QuantizedCall:
    """A function to put into a graph: rounds its operands, then does what it stands for.

    `target` is the function, or the name of the tensor method. A closure would do the same but could not be
    pickled.
    """

    target: Callable[..., Any] | str
    op_name: str
    formats: Mapping[str, Format]
    format_name: str

    @property
    def op(self) -> Op:
        return OPS[self.op_name]

    @property
    def __name__(self) -> str:
        return f"{self.op_name}_{self.format_name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.op.map_operands(self._quantize, args, kwargs)
        function = getattr(torch.Tensor, self.target) if isinstance(self.target, str) else self.target
        result = function(*args, **kwargs)
        return self.formats["data_out_0"](result) if "data_out_0" in self.formats else result

    def _quantize(self, name: str, operand: Operand, value: Any) -> Any:
        return self.formats[name](value) if isinstance(value, Tensor) and name in self.formats else value
