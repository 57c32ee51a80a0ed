"""From a quantised graph to its integer program, on a copy of the graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from chop.config import DesignOptions
from chop.hardware.program import Program, lower
from chop.hardware.resolve import Resolved, fold_batch_norms, remove_final_softmax, resolve_formats
from chop.hardware.rtl.design import Design, make_design
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import evaluation_mode

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


def prepare(graph: MaseGraph, strict: bool = False) -> HardwareModel:
    """Return a graph ready for hardware; the graph itself is not changed."""
    own = copy.deepcopy(graph)
    removed = remove_final_softmax(own)
    renamed = fold_batch_norms(own)
    resolved = resolve_formats(own, strict)
    own.model.recompile()
    return HardwareModel(own, lower(own), renamed, resolved, removed)


def design_graph(graph: MaseGraph, options: DesignOptions) -> Design:
    """Return the circuit of a graph, which is prepared on a copy."""
    return make_design(prepare(graph, options.strict).program, options)
