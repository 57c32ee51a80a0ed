"""Integers that onnxruntime computes in fused layers, compared with those of separate nodes on the same inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chop.display.extras import need
from chop.exporting.onnx_graph.data_types import DataType

Arrays = Mapping[str, NDArray[Any]]
GIVEN = ".given"
OUTPUT_TOLERANCE = 2.0**-12
"""Of the largest magnitude of an output, for what follows the last quantiser in float32."""


RunModel = Callable[[Any, Arrays], list[NDArray[Any]]]
"""Runs a model; a ValueError if it cannot."""


def wrong_fusion(model: Any, inputs: Arrays, fused: RunModel, separate: RunModel) -> str | None:
    """Return the first value that a fused layer computes more than one step away from separate nodes.

    Each layer is given the values that separate nodes compute, so that differences do not add up. One step is
    allowed: a sum next to the middle of two numbers may be rounded to either of them.
    """
    pairs = _pairs(model)
    if not any(pair.is_8_bit for pair in pairs):
        return None
    results = [output.name for output in model.graph.output]
    checked = [pair for pair in pairs if pair.is_8_bit]
    results_of_nodes = {name for node in model.graph.node for name in node.output}
    computed = [pair.step for pair in checked if pair.step in results_of_nodes]
    reals = [*(pair.real for pair in pairs), *(pair.rounded for pair in checked), *computed]
    names = list(dict.fromkeys(name for name in reals if name not in results))
    values = separate(_with_outputs(copy.deepcopy(model), names), inputs)
    expected = {**inputs, **_constants(model), **dict(zip([*results, *names], values, strict=True))}
    given = {f"{pair.real}{GIVEN}": expected[pair.real] for pair in pairs}
    found = fused(_cut(model, pairs), {**inputs, **given})
    steps = {pair.rounded: float(expected[pair.step].max()) for pair in checked}
    for name, value in zip([*results, *steps], found, strict=True):
        if not _is_near(value, expected[name], steps.get(name, 0.0)):
            return str(name)
    return None


@dataclass(frozen=True)
class _Pair:
    """A QuantizeLinear and the DequantizeLinear that reads its result."""

    quantize: Any
    dequantize: Any
    is_8_bit: bool

    @property
    def real(self) -> str:
        return str(self.quantize.input[0])

    @property
    def step(self) -> str:
        return str(self.dequantize.input[1])

    @property
    def rounded(self) -> str:
        return str(self.dequantize.output[0])


def _pairs(model: Any) -> list[_Pair]:
    readers = {node.input[0]: node for node in model.graph.node if node.op_type == "DequantizeLinear"}
    types = {each.name: each.data_type for each in model.graph.initializer}
    found = []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] in readers:
            given = next((each.i for each in node.attribute if each.name == "output_dtype"), int(DataType.UINT8))
            kind = types.get(node.input[2], 0) if len(node.input) > 2 else given
            found.append(_Pair(node, readers[node.output[0]], kind in (DataType.INT8, DataType.UINT8)))
    return found


def _constants(model: Any) -> dict[str, NDArray[Any]]:
    """Return the scales that are constants."""
    used = {node.input[1] for node in model.graph.node if node.op_type == "DequantizeLinear"}
    to_array = need("onnx.numpy_helper", "running an ONNX file").to_array
    return {each.name: to_array(each) for each in model.graph.initializer if each.name in used}


def _is_near(found: NDArray[Any], expected: NDArray[Any], step: float) -> bool:
    """Whether values differ by at most a step, or outputs by little; float32 numbers of two steps are near them."""
    if not expected.size:
        return True
    with np.errstate(invalid="ignore"):  # infinities
        differences = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    difference = np.where(found == expected, 0.0, differences).max()
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return bool(difference <= max(1.01 * step, OUTPUT_TOLERANCE * float(largest)))


def _with_outputs(model: Any, names: list[str]) -> Any:
    helper = need("onnx", "running an ONNX file").helper
    model.graph.output.extend(helper.make_tensor_value_info(name, DataType.FLOAT, None) for name in names)
    return model


def _cut(model: Any, pairs: list[_Pair]) -> Any:
    """Return the model in which each layer reads quantised values that are given, not those of the layer before.

    What the layer before computes is still quantised, as in the model, and becomes an output.
    """
    helper = need("onnx", "running an ONNX file").helper
    changed = copy.deepcopy(model)
    reals, rounded = (dict.fromkeys(getattr(pair, name) for pair in pairs) for name in ("real", "rounded"))
    copied = {*rounded, *(pair.quantize.output[0] for pair in pairs)}
    nodes = []
    for node in model.graph.node:
        nodes.append(copy.deepcopy(node))
        nodes[-1].input[:] = [f"{name}{GIVEN}" if name in rounded else name for name in node.input]
        if node.output[0] in copied:
            again = copy.deepcopy(node)
            again.name = f"{node.name}{GIVEN}"
            again.input[0], again.output[0] = f"{node.input[0]}{GIVEN}", f"{node.output[0]}{GIVEN}"
            nodes.append(again)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    changed.graph.input.extend(
        helper.make_tensor_value_info(f"{name}{GIVEN}", DataType.FLOAT, None) for name in reals
    )
    return _with_outputs(changed, [pair.rounded for pair in pairs if pair.is_8_bit])
