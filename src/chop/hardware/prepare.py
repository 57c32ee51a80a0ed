"""From a quantised graph to its integer program, on a copy of the graph."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from chop.config import CheckedCircuitOptions, DesignOptions
from chop.display.numbers import percent
from chop.hardware.program import Program, lower
from chop.hardware.resolve import Resolved, fold_batch_norms, resolve_formats
from chop.hardware.rtl.design import Design, make_design
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.device import on_cpu
from chop.ir.graph.interpreter import evaluation_mode
from chop.statistics.scoring import accuracy_on

if TYPE_CHECKING:
    from chop.runs.run import Run

logger = logging.getLogger(__name__)


ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class HardwareModel:
    """A graph with folded batch norms and complete formats, and its program."""

    graph: MaseGraph
    program: Program
    renamed: Mapping[str, str]
    """For each batch norm that was folded, the node that computes its result."""
    resolved: Resolved
    removed: Sequence[str] = ()
    """A softmax at the end, which is left out: the results are its inputs."""

    def fake_quantized(self, x: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return what PyTorch computes for real rows [rows, *shape]: in float64 if float32 would not be exact."""
        dtype = torch.float64 if self.program.beyond_float32 else torch.float32
        model = copy.deepcopy(self.graph).model.to(dtype)
        rows = torch.from_numpy(np.asarray(x)).to(dtype)
        with evaluation_mode(model):
            parts = [model(part).double() for part in rows.split(ROWS_AT_ONCE)]
        return torch.cat(parts).numpy()

    def num_differences(self, x: NDArray[np.floating]) -> int:
        """Return for how many rows PyTorch and the integer program differ."""
        program = self.program
        computed = program.real(program.quantize(x))
        return int((computed != self.fake_quantized(x)).reshape(len(x), -1).any(axis=1).sum())

    def check(self, rows: NDArray[np.floating]) -> None:
        """Raise an error if PyTorch and the integer program differ for one of the rows."""
        different = self.num_differences(rows)
        if different:
            raise ValueError(f"PyTorch and the integer program differ for {different} of {len(rows)} vectors")


def prepare(graph: MaseGraph, strict: bool = False) -> HardwareModel:
    """Return a graph ready for hardware; the graph itself is not changed."""
    own = on_cpu(copy.deepcopy(graph))
    removed = remove_final_softmax(own)
    renamed = fold_batch_norms(own)
    resolved = resolve_formats(own, strict)
    own.model.recompile()
    return HardwareModel(own, lower(own), renamed, resolved, removed)


def design_graph(graph: MaseGraph, options: DesignOptions) -> Design:
    """Return the circuit of a graph, which is prepared on a copy."""
    return make_design(prepare(graph, options.strict).program, options)


def remove_final_softmax(graph: MaseGraph) -> list[str]:
    """Remove a softmax whose result is the output, so that the graph returns its inputs; return its name."""
    output = next(node for node in graph.fx_graph.nodes if node.op == "output")
    node = output.args[0]
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return []
    meta: NodeMeta = node.meta["mase"]
    if meta.mase_op not in ("softmax", "log_softmax"):
        return []
    (source,) = node.all_input_nodes
    node.replace_all_uses_with(source)
    graph.fx_graph.erase_node(node)
    return [node.name]


def prepare_run(run: Run, options: CheckedCircuitOptions) -> HardwareModel:
    """Fold batch norms and complete the formats of a run's model; log what was done, and the change in accuracy."""
    graph = run.experiment.annotated_graph()
    prepared = prepare(graph, options.strict)
    for node in prepared.removed:
        logger.info("'%s' at the end is left out: the circuit returns its inputs, whose largest is the same", node)
    for norm, node in prepared.renamed.items():
        logger.info("batch norm '%s' is folded into '%s'", norm, node)
    for node, formats in prepared.resolved.completed.items():
        shown = ", ".join(f"{name} {number_format}" for name, number_format in formats.items())
        logger.info("formats of '%s' are completed: %s", node, shown)
    for node, scale in prepared.resolved.scales.items():
        logger.info("the scale of the weights of '%s' is rounded to fixed point: %g", node, scale)
    if prepared.program.beyond_float32:
        nodes = ", ".join(prepared.program.beyond_float32)
        logger.warning("sums of %s exceed 2**24, which float32 does not hold: compared in float64", nodes)
    batches = run.test_batches(options.samples)
    before, after = (accuracy_on(each, batches.labelled()) for each in (graph, prepared.graph))
    if before is not None and after is not None:
        values = percent(before), percent(after)
        logger.info("accuracy on %d test samples: %s as saved, %s as hardware", batches.num_samples, *values)
    return prepared
