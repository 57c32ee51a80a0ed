"""The target `onnx`: QuantizeLinear and DequantizeLinear, run by onnxruntime or the reference evaluator of onnx."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chop.config import ExportOptions
from chop.display.extras import need
from chop.exporting.export import TARGETS
from chop.exporting.onnx_file import choose_opset, make_model
from chop.exporting.onnx_fusions import GIVEN, Arrays, wrong_fusion
from chop.exporting.onnx_graph.biases import widen_biases
from chop.exporting.onnx_graph.builder import OnnxBuilder, OnnxNode
from chop.exporting.onnx_graph.call import Ref
from chop.exporting.onnx_graph.lower import Lowered, lower
from chop.exporting.onnx_graph.qdq import QDQ
from chop.exporting.proof import Batch, Engine
from chop.ir import MaseGraph

logger = logging.getLogger(__name__)
MAX_ERROR_LENGTH = 300
EXACT_SUMS = "session.x64quantprecision=1"
"""Without it, onnxruntime 1.31 adds pairs of 8-bit products in 16 bits on CPUs without VNNI, which saturates."""
NO_FUSION = "session.disable_quant_qdq=1"
"""Without it, onnxruntime 1.31 fuses products of FP8 numbers, and sums of INT8 ones, into ops of other types."""
NO_OPTIMIZATION = "ORT_DISABLE_ALL"
"""Without it, onnxruntime 1.31 moves transposes through blocked QuantizeLinear but leaves the scales."""


class Session(Protocol):
    """A model that is ready to run."""

    @property
    def title(self) -> str:
        """Its name and version."""

    def run(self, inputs: Arrays) -> list[NDArray[Any]]:
        """Return the outputs in their order."""


class OnnxRuntime:
    """onnxruntime on the CPU; `limits` are the names of optimisations that are switched off."""

    def __init__(self, model: Any, *limits: str) -> None:
        runtime = need("onnxruntime", "running an ONNX file")
        self.limits = limits
        self.title = ", ".join([f"onnxruntime {runtime.__version__}", *limits])
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # types that it lacks are errors, which are handled
        options.intra_op_num_threads = torch.get_num_threads()  # by default all cores, which wait busily for work
        for limit in {EXACT_SUMS, NO_FUSION}.intersection(limits):
            options.add_session_config_entry(*limit.split("="))
        if NO_OPTIMIZATION in limits:
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        providers = ["CPUExecutionProvider"]
        self.session = runtime.InferenceSession(model.SerializeToString(), options, providers=providers)

    def run(self, inputs: Arrays) -> list[NDArray[Any]]:
        outputs: list[NDArray[Any]] = self.session.run(None, dict(inputs))
        return outputs


class ReferenceEvaluator:
    """The reference evaluator of onnx: slow, and with all types."""

    def __init__(self, model: Any) -> None:
        onnx, reference = need("onnx", "running an ONNX file"), need("onnx.reference", "running an ONNX file")
        self.title = f"onnx reference evaluator {onnx.__version__}"
        self.session = reference.ReferenceEvaluator(model)

    def run(self, inputs: Arrays) -> list[NDArray[Any]]:
        with np.errstate(all="ignore"):
            outputs: list[NDArray[Any]] = self.session.run(None, dict(inputs))
        return outputs


class FirstThatRuns:
    """onnxruntime; else with fewer optimisations, which have defects for some types; else the evaluator."""

    def __init__(self, model: Any, is_fused: bool = True) -> None:
        need("onnxruntime", "running an ONNX file")
        self.model = model
        programs: list[Callable[[], Session]] = [
            partial(OnnxRuntime, model),
            partial(OnnxRuntime, model, NO_FUSION),
            partial(OnnxRuntime, model, NO_OPTIMIZATION),
            partial(ReferenceEvaluator, model),
        ]
        self.remaining = programs if is_fused else programs[1:]
        self.session: Session | None = None

    @property
    def limits(self) -> tuple[str, ...] | None:
        """The optimisations of onnxruntime that are switched off; None: it is not used."""
        return self.session.limits if isinstance(self.session, OnnxRuntime) else None

    def switch_off(self, limit: str) -> None:
        """Use onnxruntime without an optimisation, if it runs so; else without others."""
        others = self.remaining[1:]  # the first of them has no fused layers
        self.session = None
        self.remaining = others if limit == NO_FUSION else [partial(OnnxRuntime, self.model, limit), *others]

    @property
    def title(self) -> str:
        """The program that ran the model."""
        return "onnxruntime" if self.session is None else self.session.title

    def run(self, inputs: Arrays) -> list[NDArray[Any]]:
        """Return the outputs of the first program that can compute them."""
        while True:
            try:
                self.session = self.session or self.remaining[0]()
                return self.session.run(inputs)
            except Exception:  # engines raise errors of many kinds
                if len(self.remaining) == 1:
                    raise
                self.session, self.remaining = None, self.remaining[1:]


def _run_with(limits: tuple[str, ...], model: Any, inputs: Arrays) -> list[NDArray[Any]]:
    """Return the outputs that onnxruntime computes without some optimisations."""
    try:
        session = OnnxRuntime(model, *limits)
    except Exception as error:  # engines raise errors of many kinds
        raise ValueError(f"onnxruntime cannot load the file: {_one_line(error)}") from error
    return run_session(session, inputs)


def run_session(session: Session, inputs: Arrays) -> list[NDArray[Any]]:
    """Return the outputs; an error of the engine is a ValueError in one sentence."""
    try:
        return session.run(inputs)
    except Exception as error:  # engines raise errors of many kinds
        raise ValueError(f"{session.title} cannot run the file: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= MAX_ERROR_LENGTH else f"{text[:60]} ... {text[-MAX_ERROR_LENGTH:]}"


class OnnxEngine(Engine):
    """A file that is run by onnxruntime or by the reference evaluator."""

    is_exact = False

    def __init__(self, lowered: Lowered, model: Any, opset: int) -> None:
        self.lowered, self.model, self.opset = lowered, model, opset
        self.session = FirstThatRuns(model)

    @property
    def title(self) -> str:
        """The program that ran the file."""
        return self.session.title

    def runs_by_default(self, inputs: Batch) -> bool:
        """Whether onnxruntime runs the file with its default options; else `run` tries others."""
        with suppress(ValueError):  # the error is reported by `run`
            self.run(inputs)
        return self.session.limits == ()

    def run(self, inputs: Batch) -> list[Tensor]:
        return as_tensors(run_session(self.session, as_arrays(inputs, self.lowered.inputs)))

    def switch_off_wrong_fusions(self, inputs: Batch) -> bool:
        """Switch off the optimisations of onnxruntime that compute wrong integers; return whether there are any."""
        limits = self.session.limits
        if limits not in ((), (EXACT_SUMS,)):
            return False
        given = as_arrays(inputs, self.lowered.inputs)
        try:
            wrong = wrong_fusion(self.model, given, partial(_run_with, limits), partial(_run_with, (NO_FUSION,)))
        except ValueError as error:
            logger.warning("single layers cannot be compared, so fused layers are switched off: %s", error)
        else:
            if wrong is None:
                return False
            logger.info("a fused layer computes '%s' differently", wrong)
        self.session.switch_off(NO_FUSION if limits else EXACT_SUMS)
        return True

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:

        def execute(separate: Lowered, arrays: Arrays) -> list[Tensor]:
            session = FirstThatRuns(make_model(separate, self.opset, {}, check=False), is_fused=False)
            return as_tensors(run_session(session, arrays))

        return run_separate_layers(self.lowered, inputs, results, execute)


def run_separate_layers(
    lowered: Lowered,
    inputs: Batch,
    results: Mapping[str, Tensor],
    execute: Callable[[Lowered, Arrays], list[Tensor]],
) -> dict[str, Tensor]:
    """Return what `execute` computes for each fx node from the given `results` of the nodes before it."""
    wanted = {name: ref for name, ref in lowered.results.items() if name in results}
    if not wanted:
        return {}
    separate = separate_layers(lowered, wanted)
    given = {f"{ref.name}{GIVEN}": results[name] for name, ref in wanted.items()}
    found = execute(separate, as_arrays({**inputs, **given}, separate.inputs))
    by_value = dict(zip(separate.outputs, found, strict=True))
    return {name: by_value[ref.name] for name, ref in wanted.items()}


def separate_layers(lowered: Lowered, results: Mapping[str, Ref]) -> Lowered:
    """Return a graph in which each fx node reads the `results` of others from additional inputs."""
    owners = {name: node.owner for node in lowered.builder.nodes for name in node.outputs}
    values = {ref.name: ref for ref in results.values()}

    def rewired(node: OnnxNode) -> OnnxNode:
        others = {name for name in node.inputs if name in values and owners.get(name) != node.owner}
        return replace(node, inputs=tuple(f"{name}{GIVEN}" if name in others else name for name in node.inputs))

    nodes = [rewired(node) for node in lowered.builder.nodes]
    given = {f"{name}{GIVEN}": replace(ref, name=f"{name}{GIVEN}") for name, ref in values.items()}
    builder = OnnxBuilder(nodes, lowered.builder.initializers, lowered.builder.opset)
    return Lowered(builder, {**lowered.inputs, **given}, values, {})


def as_arrays(given: Mapping[str, Any], wanted: Mapping[str, Ref]) -> dict[str, NDArray[Any]]:
    """Return the values of the inputs that a graph wants, for an engine."""
    return {name: torch.as_tensor(given[name]).detach().contiguous().numpy() for name in wanted}


def as_tensors(arrays: list[NDArray[Any]]) -> list[Tensor]:
    """Return what an engine computed as tensors."""
    return [torch.from_numpy(np.array(each)) for each in arrays]


class OnnxTarget:
    """ONNX with QuantizeLinear and DequantizeLinear, run by onnxruntime or the reference evaluator."""

    suffix = ".onnx"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        metadata = {"chop.formats": json.dumps(formats_of(graph))}
        for zero_points in (True, False):
            lowered = lower(graph, batch, QDQ(zero_points))
            widen_biases(lowered.builder)
            opset = choose_opset(lowered, options.opset)
            model = make_model(lowered, opset, metadata)
            engine = OnnxEngine(lowered, model, opset)
            if engine.runs_by_default(batch):
                break
        path.write_bytes(model.SerializeToString())
        return engine


def formats_of(graph: MaseGraph) -> dict[str, dict[str, str]]:
    """Return the number formats of each node as text: a type of ONNX may be wider than the format."""
    found = {}
    for meta in graph.metas():
        if meta.quantized is not None:
            found[meta.node.name] = {name: str(each) for name, each in meta.quantized.formats.items()}
    return found


TARGETS.add("onnx", OnnxTarget())
