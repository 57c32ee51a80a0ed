"""Are the weights really quantised?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.run import Runner, bind_inputs, undisturbed
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class VerifyQuantizationArgs:
    dummy_in: Mapping[str, Any] | None = None
    """A batch to look at activations with; without one, those of the annotating run are used."""


@register_pass("verify_quantization", kind="analysis")
def verify_quantization_analysis_pass(graph: MaseGraph, args: VerifyQuantizationArgs) -> PassResult:
    """Checks that each quantised operand, as it is computed with, holds only numbers of its format.

    `info[node][operand]` has the `format` and the error against the original, `max_error` and `sqnr_db`.
    Raises where a value is off the grid.
    """
    metas = graph.annotated_metas()
    inputs = _noted_inputs(metas) if args.dummy_in is None else args.dummy_in
    arguments = bind_inputs(graph, inputs)
    checker = _Checker(graph.model)
    with undisturbed(graph.model):
        checker.run(*arguments)
    return graph, checker.found


def _noted_inputs(metas: list[NodeMeta]) -> dict[str, Any]:
    """The batch of the annotating run."""
    inputs = {str(m.node.target): m.value("data_out_0") for m in metas if m.node.op == "placeholder" and m.results}
    if any(value is None for value in inputs.values()):
        raise ValueError("verify_quantization_analysis_pass needs 'dummy_in': the graph keeps no values")
    return inputs


class _Checker(Runner):
    """Runs the graph and looks at every quantised operand on the way."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.found: dict[str, dict[str, Any]] = {}

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        quantized = meta.quantized
        if quantized is not None:
            originals = {name: value for name, _, value in quantized.op.bound(args, kwargs)}
            operands = _operands(quantized, originals)
            self.found[node.name] = {name: _check(meta, name, *pair) for name, pair in operands.items()}


def _operands(
    quantized: QuantizedLayer | QuantizedCall, originals: Mapping[str, Any]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Each quantised operand before and after rounding."""
    pairs = {
        name: (value, quantized.formats[name](value))
        for name, value in originals.items()
        if name in quantized.formats and isinstance(value, Tensor)
    }
    if isinstance(quantized, QuantizedLayer):
        for operand in quantized.op.parameters:
            used = quantized.quantized(operand.name)
            if used is not None and operand.name in quantized.formats:
                pairs[operand.name] = (getattr(quantized, operand.name), used)
    return pairs


def _check(meta: NodeMeta, name: str, original: Tensor, used: Tensor) -> dict[str, Any]:
    """What the metadata claims of an operand, against the numbers that are computed with."""
    number_format = meta.args[name].format
    on_grid = number_format.contains(used)
    if not bool(on_grid.all()):
        value = used[~on_grid].flatten()[0].item()
        raise ValueError(f"node '{meta.node.name}': '{name}' holds {value}, which is not in {number_format}")
    error = (used - original).double()
    noise, signal = error.square().sum().item(), original.double().square().sum().item()
    return {
        "format": number_format,
        "max_error": error.abs().max().item() if error.numel() else 0.0,
        "sqnr_db": _decibel(signal, noise),
    }


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
