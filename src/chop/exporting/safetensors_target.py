"""The target `safetensors`: written, read back, and run in PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, fx

from chop import __version__
from chop.config import ExportOptions
from chop.exporting.export import TARGETS
from chop.exporting.proof import Batch, Engine, outputs_of
from chop.exporting.safetensors_file import TARGET, write_safetensors
from chop.files import CorruptFileError
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs, evaluation_mode
from chop.ir.graph.storage import read_packed_graph


class SafetensorsTarget:
    """Packed integers and scales; `ch test --load` reads the file."""

    suffix = ".safetensors"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        """Write the file, and return the graph that is read back from it."""
        if options.opset is not None:
            raise ValueError("a safetensors file has no opset")
        write_safetensors(graph, path)
        try:
            return ReadBack(read_packed_graph(path))
        except CorruptFileError:
            raise
        except ValueError:  # for example a layer that only the code of the model can build
            return ReadBack(read_packed_graph(path, into=copy.deepcopy(graph)))


class ReadBack(Engine):
    """A graph that was read from a file."""

    title = f"read back by chop {__version__}"
    is_exact = True

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph

    def run(self, inputs: Batch) -> list[Tensor]:
        """Return the outputs of the graph."""
        return outputs_of(self.graph, inputs)

    def run_layers(self, inputs: Batch, results: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the result of each node, from given results of the nodes before it."""
        runner = _FromResults(self.graph.model, results)
        with evaluation_mode(self.graph.model):
            runner.run(*bind_inputs(self.graph, inputs))
        return runner.found


class _FromResults(NodeInterpreter):
    """An interpreter that continues with given results instead of its own."""

    def __init__(self, model: fx.GraphModule, given: Mapping[str, Tensor]) -> None:
        super().__init__(model)
        self.given = given
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n.name not in self.given:
            return result
        self.found[n.name] = result.clone()
        return self.given[n.name].clone()


TARGETS.add(TARGET, SafetensorsTarget())
