"""Every op in every number format that ONNX and QONNX can express: the file computes what the graph computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from all_ops import network
from exporting_samples import config_of, quantized
from op_calls import CALLS, IDENTITY, OF_CAPTURED_MODELS
from test_onnx import FORMATS as ONNX_FORMATS
from torch import Tensor, nn

from chop.exporting import export_graph
from chop.exporting.export import CannotExportError
from chop.exporting.onnx_graph.lowering import LOWERINGS
from chop.exporting.proof import FLOAT_TOLERANCE
from chop.ir import MaseGraph
from chop.ops import OPS
from chop.passes.graph import quantize_transform_pass
from samples import Sample, samples

pytestmark = pytest.mark.slow

QUICK = ("int8", "int4")
"""Formats of the quick tests."""

NUM_CALLS = 16
"""Calls per file: sessions of onnxruntime with more take longer than several of them."""


def lacks(op: str) -> bool:
    """Whether ONNX lacks an op: some pooling."""
    return op.startswith(("fractional_max_pool", "local_response_norm")) or (
        op.startswith("adaptive") and op.endswith(("1d", "3d"))
    )


@pytest.mark.parametrize("config", [None, config_of("integer")], ids=["float", "integer"])
def test_every_op_is_exported_or_refused_with_the_name_of_its_node(
    config: dict[str, Any] | None, tmp_path: Path
) -> None:
    for op, calls in samples().items():
        for sample in calls if config is not None else calls[-1:]:
            graph = quantized(sample.model().eval(), config, **sample.arguments())
            if lacks(op):
                with pytest.raises(
                    CannotExportError, match=f"node '{_node(graph, op)}' cannot be exported to onnx: "
                ):
                    export_graph(graph, tmp_path / "op.onnx", "onnx", [sample.arguments()])
            else:
                export_graph(graph, tmp_path / "op.onnx", "onnx", [sample.arguments()])


def _node(graph: MaseGraph, op: str) -> str:
    return next(meta.node.name for meta in graph.metas() if meta.mase_op == op)


class _Call(nn.Module):
    """A call of an op that has no formats."""

    def __init__(self, op: str) -> None:
        super().__init__()
        self.op, self.identity = op, IDENTITY

    def forward(self, x: Tensor, y: Tensor) -> object:
        return CALLS[self.op](x, y)


@pytest.mark.parametrize("part", range(4))
def test_ops_without_formats_are_exported_for_every_batch_size(part: int, tmp_path: Path) -> None:
    batches = [{"x": torch.randn(rows, 4), "y": torch.randn(rows, 1, 4, 4)} for rows in (6, 1)]
    for op in list(CALLS)[part::4]:
        graph = quantized(_Call(op).eval(), None, **batches[0])
        assert op in [meta.mase_op for meta in graph.metas()]
        proof = export_graph(graph, tmp_path / "op.onnx", "onnx", batches).proof
        assert proof.largest <= 2**-16 * max(proof.magnitude, 1), (op, proof)


def test_every_op_of_the_target_is_tested() -> None:
    assert LOWERINGS.keys() - samples().keys() - CALLS.keys() == set(OF_CAPTURED_MODELS)


Network = tuple[MaseGraph, dict[str, Tensor]]


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    """Networks that together call every op; in the last ones, what formats divide has a fixed size."""
    calls = {op: made[-1] for op, made in samples().items() if not lacks(op) and not op.startswith("transformer")}
    free = [op for op, call in calls.items() if _has_free_batch(op, call)]
    fixed = [op for op in calls if op not in free]
    parts = [ops[i : i + NUM_CALLS] for ops in (free, fixed) for i in range(0, len(ops), NUM_CALLS)]
    return [network({op: calls[op] for op in part}) for part in parts]


def _has_free_batch(op: str, call: Sample) -> bool:
    """Whether the first dimension of all inputs is a batch: none of them is a weight."""
    has_weights = any(operand.role in ("weight", "bias") for operand in OPS[op].operands)
    if op == "outer" or (call.module is None and has_weights):
        return False
    try:
        call.model().eval()(**{name: value[:1] for name, value in call.arguments().items()})
    except (RuntimeError, ValueError, IndexError):
        return False
    return True


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ONNX_FORMATS]
)
def test_every_op_in_every_format_of_onnx_computes_the_same(
    name: str, networks: list[Network], tmp_path: Path
) -> None:
    config, _, _, engine = ONNX_FORMATS[name]
    for graph, inputs in networks:
        graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
        if "reference" in engine and any(meta.mase_op == "lstm" for meta in graph.metas()):
            with pytest.raises(ValueError, match=r"onnx reference evaluator .* cannot run the file: .*LSTM"):
                export_graph(graph, tmp_path / "ops.onnx", "onnx", [inputs])
            continue
        proof = export_graph(graph, tmp_path / "ops.onnx", "onnx", [inputs]).proof
        # No rounding follows a sum here: outputs differ by the order of float32 additions alone.
        assert proof.largest <= FLOAT_TOLERANCE * proof.magnitude, proof
