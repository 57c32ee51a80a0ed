"""Saving models, and opening them again, also in another process."""

from __future__ import annotations

import copy
import os
from pathlib import Path

from torch import nn

from chop.ir import MaseGraph
from chop.ir.graph.graph_module import MaseGraphModule
from chop.ir.graph.storage import GRAPH_FILE, MODULE_FILE, load_graph, load_module, save_graph, save_module
from chop.runs import open_run


def save(model: nn.Module, path: Path | str) -> None:
    """Write a model into a folder; see `chop.save`."""
    if isinstance(model, MaseGraphModule):
        save_graph(MaseGraph(model), Path(path))
    else:
        save_module(model, Path(path))


def load(path: Path | str, into: nn.Module | None = None) -> nn.Module:
    """Return the model that was saved in a folder, or that of a run; see `chop.load`."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"chop.load needs the path of a folder or of a run, got {type(path).__name__}")
    folder = Path(path)
    if (folder / GRAPH_FILE).is_file():
        if into is None:
            return load_graph(folder).model
        return load_graph(folder, into=MaseGraph(copy.deepcopy(into))).model
    if not (folder / MODULE_FILE).is_file():
        return open_run(path).model
    if into is None:
        raise ValueError(
            f"{folder} holds a model that was saved without a graph, which only its own code can run: give a model "
            "of the same class, chop.load(path, into=Net())"
        )
    return load_module(folder, copy.deepcopy(into))
