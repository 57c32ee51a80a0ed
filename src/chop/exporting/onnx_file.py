"""ONNX files: from the graph as plain data to a checked model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop import __version__
from chop.display.extras import need
from chop.exporting.onnx_graph.call import Ref
from chop.exporting.onnx_graph.data_types import MAX_IR_VERSION, MAX_OPSET, OF_TORCH
from chop.exporting.onnx_graph.lower import Lowered
from chop.models.onnx_reader.protos import MAX_BYTES

BATCH = "batch"
"""The name of the axis whose size is free."""
QONNX_DOMAIN = "qonnx.custom_op.general"


def choose_opset(lowered: Lowered, wanted: int | None) -> int:
    """Return the opset of a file: the smallest that has all types and ops, or a later one that was asked for."""
    needed, reason = lowered.builder.opset, lowered.builder.opset_reason or "QuantizeLinear with blocks and INT4"
    if wanted is None:
        return needed
    if wanted < needed:
        raise ValueError(f"opset {wanted} is too old: {reason} needs opset {needed}")
    if wanted > MAX_OPSET:
        raise ValueError(f"opset {wanted} is too new: opsets up to {MAX_OPSET} can be proven")
    return wanted


def make_model(lowered: Lowered, opset: int, metadata: Mapping[str, str], check: bool = True) -> Any:
    """Return the `ModelProto`; `metadata` is stored in it as text."""
    onnx = need("onnx", "writing an ONNX file")
    helper, builder = onnx.helper, lowered.builder
    used = {name for node in builder.nodes for name in node.inputs}
    num_bytes = sum(len(each.content) for name, each in builder.initializers.items() if name in used)
    if num_bytes >= MAX_BYTES:
        raise ValueError(
            f"the parameters have {num_bytes:,} bytes, but an ONNX file has less than {MAX_BYTES:,}; "
            "use a narrower number format or the target 'safetensors'"
        )
    nodes = [
        helper.make_node(
            node.op_type, node.inputs, node.outputs, f"{node.owner}/{i}", domain=node.domain, **node.attributes
        )
        for i, node in enumerate(builder.nodes)
    ]
    initializers = [
        helper.make_tensor(name, int(each.data_type), each.shape, each.content, raw=True)
        for name, each in builder.initializers.items()
        if name in used
    ]
    graph = helper.make_graph(
        nodes,
        "chop",
        [value_info(helper, ref) for ref in lowered.inputs.values()],
        [value_info(helper, ref) for ref in lowered.outputs.values()],
        initializers,
    )
    domains = {node.domain for node in builder.nodes if node.domain}
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    ir_version = min(helper.find_min_ir_version_for([imports[0]]), MAX_IR_VERSION)
    model = helper.make_model(
        graph, opset_imports=imports, ir_version=ir_version, producer_name="chop", producer_version=__version__
    )
    helper.set_model_props(model, dict(metadata))
    if check:
        onnx.checker.check_model(model, full_check=not domains)
    return model


def value_info(helper: Any, ref: Ref) -> Any:
    """Return name, type and shape of a value; sizes that are free have names."""
    shape = [
        n if n is not None else BATCH if d == 0 and ref.has_batch else f"{ref.name}_{d}"
        for d, n in enumerate(ref.shape)
    ]
    return helper.make_tensor_value_info(ref.name, int(OF_TORCH[ref.dtype]), shape)
