"""The target `qonnx`: ONNX with the quantisers of QONNX, run by its executor."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torch import Tensor

from chop.config import ExportOptions
from chop.display.extras import need
from chop.exporting.export import TARGETS
from chop.exporting.onnx_engines import as_arrays, as_tensors, run_separate_layers, run_session
from chop.exporting.onnx_file import choose_opset, make_model
from chop.exporting.onnx_fusions import Arrays
from chop.exporting.onnx_graph.call import Ref
from chop.exporting.onnx_graph.lower import Lowered, lower
from chop.exporting.onnx_target import formats_of
from chop.exporting.proof import Batch, Engine
from chop.exporting.qonnx_quantizers import QONNXQuantizers
from chop.ir import MaseGraph

_ROUND_ANNOTATED = "SANITIZE_QUANT_TENSORS"
"""A variable of qonnx: whether tensors with an annotation are rounded to integers before and after each node."""


class QONNXTarget:
    """ONNX with IntQuant and FloatQuant, run by the executor of qonnx."""

    suffix = ".onnx"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        """Write the file, and return the engine that runs it."""
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
        """The version of qonnx."""
        return f"qonnx {version('qonnx')}"

    def run(self, inputs: Batch) -> list[Tensor]:
        """Return the outputs for a batch."""
        return self._execute(self.lowered, as_arrays(inputs, self.lowered.inputs))

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the result of each node, from given results of the nodes before it."""
        return run_separate_layers(self.lowered, inputs, results, self._execute)

    def _execute(self, lowered: Lowered, arrays: Arrays) -> list[Tensor]:
        fixed = {name: _fixed(ref, arrays[name].shape) for name, ref in lowered.inputs.items()}
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
        """Return the outputs in their order."""
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


def _fixed(ref: Ref, shape: tuple[int, ...]) -> Ref:
    return replace(ref, shape=tuple(shape), has_batch=False)


TARGETS.add("qonnx", QONNXTarget())
