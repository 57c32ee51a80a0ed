"""The target `qonnx`: ONNX with the quantisers of QONNX, run by its executor."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.config import ExportOptions
from chop.display.extras import need
from chop.exporting.export import TARGETS
from chop.exporting.onnx_file import QONNX_DOMAIN, choose_opset, make_model
from chop.exporting.onnx_fusions import Arrays
from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError, Ref
from chop.exporting.onnx_graph.lower import Lowered, lower
from chop.exporting.onnx_target import as_arrays, as_tensors, formats_of, run_separate_layers, run_session
from chop.exporting.proof import Batch, Engine
from chop.exporting.stored_tensor import quantize
from chop.formats import Format
from chop.formats.integer import Integer
from chop.formats.parts.grid import OnGrid
from chop.formats.parts.rounding import Rounding
from chop.ir import MaseGraph

ROUNDING_MODES: dict[Rounding, str] = {
    "nearest_even": "ROUND",
    "nearest_away": "HALF_UP",
    "floor": "FLOOR",
    "towards_zero": "DOWN",
}
"""The names of roundings; HALF_UP of QONNX rounds away from zero."""
FROM_DATA = "whose scale is computed from the values of each call, which QONNX has for weights only"


class QONNXQuantizers:
    """Nodes that round float32 tensors, with parameters that say to which numbers."""

    target = "qonnx"

    def parameter(
        self, builder: OnnxBuilder, name: str, value: Tensor, number_format: Format, scale: Tensor | None
    ) -> Name:
        """Return a constant that was rounded before, and a node that rounds it to the same numbers."""
        if not number_format.is_repeatable:
            raise CannotFormatError("which rounds differently in each call")
        rounded = quantize(number_format, value, scale)
        if isinstance(number_format, Integer) and not number_format.is_fixed_point and scale is None:
            _, used = number_format.integers(value)
            if number_format.granularity == "group":
                raise CannotFormatError("whose scales belong to groups, which QONNX does not have")
        else:
            used = _scale(number_format, scale)
        return _node(builder, builder.constant(rounded, name=name), number_format, used, name, narrow=scale is None)

    def activation(self, builder: OnnxBuilder, x: Ref, number_format: Format, scale: Tensor | None) -> Name:
        """Return a tensor that was rounded with a constant scale."""
        if not number_format.is_repeatable:
            raise CannotFormatError("which rounds differently in each call")
        if number_format.values_depend_on_data and scale is None:
            raise CannotFormatError(FROM_DATA)
        return _node(builder, x.name, number_format, _scale(number_format, scale), builder.owner, narrow=False)


def _scale(number_format: Format, scale: Tensor | None) -> Tensor:
    if scale is not None:
        return number_format.step_of(scale)
    if isinstance(number_format, Integer):
        return torch.tensor(math.ldexp(1.0, -int(number_format.precision[1])))
    return torch.tensor(1.0)


def _node(builder: OnnxBuilder, x: Name, number_format: Format, scale: Tensor, name: str, *, narrow: bool) -> Name:
    """Return the result of the node that rounds `x`; `narrow`: a step from data covers magnitudes."""
    if isinstance(number_format, Integer):
        if number_format.width == 1 and number_format.is_signed:
            raise CannotFormatError("and 1-bit IntQuant of QONNX has the values -1 and 1")
        from_data = narrow and not number_format.is_fixed_point
        return builder.node(
            "IntQuant",
            x,
            builder.constant(scale.float(), name=f"{name}.scale"),
            builder.constant(0.0),
            builder.constant(float(number_format.width)),
            domain=QONNX_DOMAIN,
            signed=int(number_format.is_signed),
            narrow=int(from_data and number_format.is_signed),
            rounding_mode=ROUNDING_MODES[number_format.rounding],
        )
    if not isinstance(number_format, OnGrid) or number_format.grid.mantissa == 0:
        raise CannotFormatError("for which QONNX has no quantiser")
    return _float_quant(builder, x, number_format, scale, name)


def _float_quant(builder: OnnxBuilder, x: Name, number_format: OnGrid, scale: Tensor, name: str) -> Name:
    grid = number_format.grid
    exponents = number_format.width - 1 - grid.mantissa
    if number_format.rounding not in ("nearest_even", "floor") or exponents < 1:
        raise CannotFormatError("for which QONNX has no quantiser")
    parameters = (float(exponents), float(grid.mantissa), float(1 - grid.min_exponent), grid.largest)
    return builder.node(
        "FloatQuant",
        x,
        builder.constant(scale.float(), name=f"{name}.scale"),
        *(builder.constant(each) for each in parameters),
        domain=QONNX_DOMAIN,
        rounding_mode=ROUNDING_MODES[number_format.rounding],
        has_inf=0,
        has_nan=0,
        has_subnormal=1,
        saturation=1,
    )


_ROUND_ANNOTATED = "SANITIZE_QUANT_TENSORS"
"""A variable of qonnx: whether tensors with an annotation are rounded to integers before and after each node."""


class QONNXTarget:
    """ONNX with IntQuant and FloatQuant, run by the executor of qonnx."""

    suffix = ".onnx"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        lowered = lower(graph, batch, QONNXQuantizers())
        opset = choose_opset(lowered, options.opset)
        model = make_model(lowered, opset, {"chop.formats": json.dumps(formats_of(graph))})
        path.write_bytes(model.SerializeToString())
        return QONNXEngine(lowered, opset)


class QONNXEngine(Engine):
    """The executor of qonnx, which runs one node at a time and needs the shapes of all tensors."""

    is_exact = False

    def __init__(self, lowered: Lowered, opset: int) -> None:
        need("qonnx", "running a QONNX file")
        self.lowered, self.opset = lowered, opset

    @property
    def title(self) -> str:
        return f"qonnx {version('qonnx')}"

    def run(self, inputs: Batch) -> list[Tensor]:
        return self._execute(self.lowered, as_arrays(inputs, self.lowered.inputs))

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return run_separate_layers(self.lowered, inputs, results, self._execute)

    def _execute(self, lowered: Lowered, arrays: Arrays) -> list[Tensor]:
        fixed = {
            name: replace(ref, shape=tuple(arrays[name].shape), has_batch=False)
            for name, ref in lowered.inputs.items()
        }
        free = Lowered(lowered.builder, fixed, lowered.outputs, {})
        model = make_model(free, self.opset, {}, check=False)
        return as_tensors(run_session(_Executor(model, self.title), arrays))


class _Executor:
    """A model with fixed shapes."""

    def __init__(self, model: Any, title: str) -> None:
        self.title = title
        wrapper = need("qonnx.core.modelwrapper", "running a QONNX file").ModelWrapper(model)
        shapes = need("qonnx.transformation.infer_shapes", "running a QONNX file").InferShapes()
        with _quiet():  # the model is sorted and used only here, so it is neither tidied nor copied
            self.model = wrapper.transform(shapes, make_deepcopy=False, cleanup=False)

    def run(self, inputs: Arrays) -> list[Any]:
        execute = need("qonnx.core.onnx_exec", "running a QONNX file").execute_onnx
        with _quiet(), _without_annotations():
            found = execute(self.model, dict(inputs))
        return [found[output.name] for output in self.model.graph.output]


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore warnings of qonnx about shapes that it infers later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _without_annotations() -> Iterator[None]:
    """Let qonnx not search for annotations of integers, which our files do not have: that takes quadratic time."""
    before = os.environ.get(_ROUND_ANNOTATED)
    os.environ[_ROUND_ANNOTATED] = "0"
    try:
        yield
    finally:
        del os.environ[_ROUND_ANNOTATED]
        os.environ.update({} if before is None else {_ROUND_ANNOTATED: before})


TARGETS.add("qonnx", QONNXTarget())
