"""The sizes of inputs that a captured graph is fixed to, and the error for other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx

CAPTURED_SIZES = "captured_sizes"
"""The key in the `meta` of an input of an exported graph of the sizes that it had during the capture."""


def explain_sizes(graph: fx.Graph, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return which input of a failed call has another size than during the capture, or ''."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    given = dict(zip((str(node.target) for node in inputs), args, strict=False)) | dict(kwargs)
    for node in inputs:
        captured, value = node.meta.get(CAPTURED_SIZES), given.get(str(node.target))
        if captured is None or not isinstance(value, Tensor) or value.shape[1:] == captured[1:]:
            continue
        return (
            f"input '{node.target}' has the shape {list(value.shape)}, but the graph was captured with "
            f"{list(captured)}, and only its first size may differ; pad or cut the input to them, or capture "
            "the model again with example_inputs of the new sizes"
        )
    return ""
