"""Rotation of the inputs of linear layers, which spreads outliers over all elements (QuaRot)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.device import device_of
from chop.ir.graph.meta import TensorMeta
from chop.nn.hadamard import Hadamard
from chop.nn.quantized import QuantizedLayer
from chop.ops import OPS
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import set_parameters
from chop.passes.graph.transforms.low_bits.matrices import weight_of
from chop.passes.graph.transforms.low_bits.neighbours import layer_before, linear_layers


@dataclass(frozen=True)
class RotateArgs:
    """Arguments of `rotate`."""

    min_size: int = 32
    """Layers with fewer inputs stay as they are."""
    online: bool = True
    """Whether a layer `Hadamard` is added where no layer before can take over the rotation."""


@register_pass("rotate", kind="transform")
def rotate_transform_pass(graph: MaseGraph, args: RotateArgs) -> PassResult:
    """Rotate the inputs of linear layers by a Hadamard matrix, and their weights against it.

    Without rounding the results stay the same; with it, outliers no longer determine the scale of all others
    (QuaRot, Ashkboos et al., 2024). If the input comes from another linear layer only, its weight takes over the
    rotation; else a layer `Hadamard` is added. In a quantised graph, only quantised layers are rotated. `info` has
    the layers in which the rotation was `folded` and those before which it is computed `online`.
    """
    info: dict[str, Any] = {"folded": {}, "online": {}}
    for source, metas in linear_layers(graph).items():
        size = metas[0].args["data_in_0"].shape[-1]
        if size < args.min_size or any(_is_pruned(meta) for meta in metas):
            continue  # rotated weights have no zeros
        producer = layer_before(metas[0].node, scaling=False) if len(metas) == len(source.users) else None
        if producer is not None and producer.mase_op == "linear" and not _is_pruned(producer):
            _rotate_outputs(producer, size)
            info["folded"][producer.node.name] = [meta.node.name for meta in metas]
        elif args.online:
            _insert(graph, source, metas, size)
            info["online"][f"{source.name}_hadamard"] = [meta.node.name for meta in metas]
        else:
            continue
        for meta in metas:
            set_parameters(meta, {"weight": _rotated(weight_of(meta.module).double(), size)})
            _rotate_value(meta.args["data_in_0"], size)
    return graph, info


def _is_pruned(meta: NodeMeta) -> bool:
    return isinstance(meta.quantized, QuantizedLayer) and meta.quantized.mask_of("weight") is not None


def _rotate_outputs(meta: NodeMeta, size: int) -> None:
    layer: Any = meta.module
    values: dict[str, Tensor] = {"weight": _rotated(weight_of(layer).double().t(), size).t()}
    if layer.bias is not None:
        values["bias"] = _rotated(layer.bias.detach().double(), size)
    set_parameters(meta, values)
    _rotate_value(meta.results["data_out_0"], size)


def _rotate_value(tensor: TensorMeta, size: int) -> None:
    if tensor.value is not None:
        tensor.value = _rotated(tensor.value, size)


def _rotated(rows: Tensor, size: int) -> Tensor:
    rotated: Tensor = Hadamard(size).to(rows.device)(rows)
    return rotated


def _insert(graph: MaseGraph, source: fx.Node, metas: list[NodeMeta], size: int) -> None:
    """Let layers read the rotated result of a node."""
    name = f"{source.name}_hadamard"
    graph.model.add_submodule(name, Hadamard(size).to(device_of(graph.model)))
    with graph.fx_graph.inserting_after(source):
        node = graph.fx_graph.call_module(name, (source,))
    for meta in metas:
        meta.node.replace_input_with(source, node)
    before, after = (metas[0].args["data_in_0"].copied() for _ in range(2))
    _rotate_value(after, size)
    node.meta["mase"] = NodeMeta(node, True, OPS["hadamard"], {"data_in_0": before}, {"data_out_0": after})
    node.meta["mase"].note_formats()
