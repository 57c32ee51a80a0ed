"""Loading saved weights, formats, modes and metadata into a graph of the same model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.ir.graph.graph_module import records
from chop.ir.graph.learned_scales import bind_scales, parameter_name, scales_of_calls
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.model_state import join
from chop.ir.graph.storage.layers import KINDS, TensorStore, modules_of, requantize
from chop.ir.graph.storage.nodes import decode_call, decode_metas, encode_node, plain_call
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer

SCALE = "_scale"
"""The suffix of learned or calibrated scales of operands; a layer has them only with certain formats."""


def load_into(graph: MaseGraph, data: Mapping[str, Any], weights: dict[str, Tensor]) -> MaseGraph:
    """Return `graph` in the state that was saved. Everything is read and checked before anything is changed."""
    calls = list(_calls(graph, data["nodes"]))
    modules = dict(modules_of(data["model"]))
    store = TensorStore(weights)
    layers = _layers(graph, modules, store)
    root = _root_with_scales(graph, calls, modules[""], store)
    tensors = list(_tensors(graph.model, modules, {**layers, "": root}, store))
    metas = decode_metas(graph.fx_graph, data["metadata"])
    for path, layer in layers.items():
        graph.model.set_submodule(path, layer)
    graph.model._parameters = root._parameters
    for node, op, target in calls:
        node.op, node.target = op, target
    bind_scales(graph.fx_graph, graph.model)
    graph.model.train(bool(modules[""]["training"]))
    _set_state(graph.model, modules, tensors)
    for node in graph.fx_graph.nodes:
        if node in metas:
            node.meta["mase"] = metas[node]
        elif "mase" in node.meta:
            node.meta["mase"].note_formats()
    graph.model.recompile()
    return graph


def load_into_module(model: nn.Module, data: Mapping[str, Any], weights: dict[str, Tensor]) -> nn.Module:
    """Return `model` in the state that was saved of a model without a graph, as `load_into` does for one with."""
    records, store = dict(modules_of(data["model"])), TensorStore(weights)
    modules = dict(model.named_modules(remove_duplicate=False))
    _check_paths(modules, records)
    made: dict[nn.Module, nn.Module] = {}
    for path, record in records.items():
        if isinstance(modules[path], QuantizedLayer) or "quantized" in record:
            made.setdefault(modules[path], _with_formats(modules[path], record, store))
    layers = {path: made[module] for path, module in modules.items() if module in made}
    tensors = list(_tensors(model, records, layers, store))
    for path, layer in layers.items():
        model.set_submodule(path, layer)
    _set_state(model, records, tensors)
    return model


def _set_state(
    model: nn.Module, saved: Mapping[str, Mapping[str, Any]], tensors: Iterable[tuple[Tensor, Tensor]]
) -> None:
    """Set the mode of each module, and copy each saved tensor into that of the model."""
    with torch.no_grad():
        for present, other in tensors:
            present.copy_(other)
            present.requires_grad_(other.requires_grad)
    for path, module in model.named_modules(remove_duplicate=False):
        module.training = bool(saved[path]["training"])


def _check_paths(modules: Mapping[str, nn.Module], saved: Mapping[str, Any]) -> None:
    if modules.keys() != saved.keys():
        differing = sorted(modules.keys() ^ saved.keys())
        raise ValueError(f"it holds a different model: one of the two has no module '{differing[0]}'")


def _calls(graph: MaseGraph, saved: list[Mapping[str, Any]]) -> Iterator[tuple[fx.Node, str, Any]]:
    """Yield each node of the graph with its saved op and target, which may differ in formats only."""
    present = list(graph.fx_graph.nodes)
    names = [node["name"] for node in saved]
    if names != [node.name for node in present]:
        raise ValueError(
            f"it holds a different model: its nodes are {names}, the graph has {[n.name for n in present]}"
        )
    for node, mine, record in zip(present, records(graph.fx_graph), saved, strict=True):
        _check_same(encode_node(mine), record)
        op, target = plain_call(node.op, node.target)
        if "quantized" in record:
            yield node, "call_function", decode_call(op, target, record["quantized"])
        else:
            yield node, op, target


def _check_same(present: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Raise an error if two nodes differ in more than formats and in the arguments that follow the mode."""
    name = present["name"]
    was, now = ((node["op"], node["target"]) for node in (saved, present))
    if was != now:
        raise ValueError(f"it holds a different model: its node '{name}' is {was}, in the graph it is {now}")
    was_given, now_given = (_arguments(node) for node in (saved, present))
    if was_given != now_given:
        raise ValueError(
            f"it holds a different model: the arguments of its node '{name}' are {was_given}, "
            f"in the graph they are {now_given}"
        )


def _arguments(node: Mapping[str, Any]) -> str:
    """Return the arguments of a JSON record as text, without those that follow the mode."""
    by_mode = {key for key, *_ in node.get("by_mode", ())}
    arguments = {**dict(enumerate(node["args"]["tuple"])), **node["kwargs"]["dict"]}
    return json.dumps({key: value for key, value in arguments.items() if key not in by_mode})


def _layers(graph: MaseGraph, saved: Mapping[str, Mapping[str, Any]], store: TensorStore) -> dict[str, nn.Module]:
    """Return the layers whose formats change, by path. A layer with several paths stays one layer."""
    modules = dict(graph.model.named_modules(remove_duplicate=False))
    _check_paths(modules, saved)
    paths = {str(node.target) for node in graph.fx_graph.nodes if node.op == "call_module"}
    made: dict[nn.Module, nn.Module] = {}
    for path in paths:
        layer, record = modules[path], saved[path]
        if not isinstance(layer, QuantizedLayer) and "quantized" not in record:
            continue
        made[layer] = _with_formats(layer, record, store)
    return {path: made[modules[path]] for path in paths if modules[path] in made}


def _with_formats(layer: nn.Module, record: Mapping[str, Any], store: TensorStore) -> nn.Module:
    """Return a layer in the formats, and with the scales, that were saved."""
    plain = plain_layer(layer) if isinstance(layer, QuantizedLayer) else layer
    new = requantize(plain, record["quantized"]) if "quantized" in record else plain
    for kind, holder in KINDS:
        others = {name: tensor for name, tensor in vars(new)[holder].items() if not name.endswith(SCALE)}
        scales = {n: store.get(scale) for n, scale in record[kind].items() if scale and n.endswith(SCALE)}
        vars(new)[holder] = others | scales
    return new


def _root_with_scales(
    graph: MaseGraph, calls: Iterable[tuple[fx.Node, str, Any]], record: Mapping[str, Any], store: TensorStore
) -> nn.Module:
    """Return a module with the parameters and buffers of the model, and with the learned scales of these calls."""
    root = nn.Module()
    old = {id(scale) for scale in scales_of_calls(graph.model)}
    root._buffers = graph.model._buffers
    root._parameters = {n: each for n, each in graph.model._parameters.items() if id(each) not in old}
    for node, _, target in calls:
        for operand in target.learned if isinstance(target, QuantizedCall) else ():
            name = parameter_name(node, operand)
            scale = store.get(record["parameters"].get(name) or {"tensor": name})
            root.register_parameter(name, nn.Parameter(scale.detach()))
    return root


def _tensors(
    model: nn.Module, saved: Mapping[str, Mapping[str, Any]], layers: Mapping[str, nn.Module], store: TensorStore
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each tensor that the model will have, with the saved one."""
    for path, module in model.named_modules(remove_duplicate=False):
        for kind, holder in KINDS:
            present = vars(layers.get(path, module))[holder]
            records = saved[path][kind]
            for name in (*present, *(name for name in records if name not in present)):
                mine = present.get(name)
                other = store.get(records[name]) if records.get(name) is not None else None
                if _describe(mine) != _describe(other):
                    raise ValueError(
                        f"its weights do not fit the graph: '{join(path, name)}' is {_describe(other)} in the "
                        f"file, but {_describe(mine)} in the graph"
                    )
                if mine is not None and other is not None:
                    yield mine, other


def _describe(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{list(tensor.shape)} of {tensor.dtype}"
