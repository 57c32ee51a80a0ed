"""Sizes of 1, which torch.export does not consider: graph and model are compared on one row of one token."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.input_sizes import CAPTURED_SIZES, CapturedSizes
from chop.ir.graph.model_state import unchanged

logger = logging.getLogger(__name__)

TOLERANCE = 1e-4
"""The largest relative difference of results that are the same but for the order of sums."""


def check_sizes_of_one(graph: fx.Graph, model: nn.Module, inputs: Mapping[str, Any]) -> None:
    """Refuse lengths of 1, and single rows with a warning, if the graph does not compute the same as the model."""
    sizes: dict[fx.Node, CapturedSizes] = {
        node: node.meta[CAPTURED_SIZES] for node in graph.nodes if CAPTURED_SIZES in node.meta
    }
    sequences = {str(node.target): node for node, each in sizes.items() if each.least == 1}
    shortened = {name: value[:, :1] if name in sequences else value for name, value in inputs.items()}
    if _agree(graph, model, _one_row(shortened)):
        return
    if sequences and not _agree(graph, model, shortened):
        for node in sequences.values():
            node.meta[CAPTURED_SIZES] = replace(sizes[node], least=2)
    batches = [node for node, each in sizes.items() if each.least_rows == 1 != each.most_rows]
    if (batches or not sizes) and not _agree(graph, model, _one_row(inputs)):
        for node in batches:
            node.meta[CAPTURED_SIZES] = replace(node.meta[CAPTURED_SIZES], least_rows=2)
        logger.warning(
            "the graph of %s computes something else than the model for a single row", type(model).__name__
        )


def _one_row(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    one: Mapping[str, Any] = pytree.tree_map_only(
        Tensor, lambda tensor: tensor[:1] if tensor.dim() else tensor, dict(inputs)
    )
    return one


def _agree(graph: fx.Graph, model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Return whether the graph computes the same as the model, also if the model does not take the inputs."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    values = [inputs.get(str(node.target), node.args[0] if node.args else None) for node in placeholders]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        state = torch.get_rng_state()
        try:
            with unchanged(model):
                expected = model(**copied(dict(inputs)))
        except Exception:  # noqa: BLE001  # the model's own error, which its users know
            return True
        torch.set_rng_state(state)
        try:
            with unchanged(model):
                found = fx.Interpreter(model, graph=graph).run(*copied(values), enable_io_processing=False)
        except Exception:  # shapes that do not fit raise errors of many kinds
            logger.debug("%s does not run on a size of 1", type(model).__name__, exc_info=True)
            return False
    return _equal(pytree.tree_leaves(expected), pytree.tree_leaves(found))


def copied(values: Any) -> Any:
    """Return nested values with copies of the tensors; the copy of a part of a tensor is whole."""
    return pytree.tree_map_only(Tensor, Tensor.clone, values)


def _equal(expected: list[Any], found: list[Any]) -> bool:
    ours, theirs = ([leaf for leaf in leaves if isinstance(leaf, Tensor)] for leaves in (expected, found))
    return len(ours) == len(theirs) and all(map(_close, ours, theirs))


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    largest = float(a.abs().nan_to_num(0, 0, 0).max()) if a.numel() and a.is_floating_point() else 0.0
    return torch.allclose(a, b, TOLERANCE, TOLERANCE * largest, equal_nan=True)
