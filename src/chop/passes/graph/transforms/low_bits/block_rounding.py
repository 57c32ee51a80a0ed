"""Learned rounding of all layers of a block together, for the least error of the block's output (BRECQ)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.func import functional_call
from torch.utils import _pytree as pytree

from chop.display.progress import ProgressBar
from chop.hardware.resolve.layers import replace_layer
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import NodeInterpreter, tensors_in
from chop.nn.quantized import QuantizedLayer, plain_layer
from chop.passes.graph.transforms.low_bits.blocks import LayerBlock, blocks_of
from chop.passes.graph.transforms.low_bits.layer_checkpoint import LayerCheckpoint
from chop.passes.graph.transforms.low_bits.layers import calibrating, gain, set_parameters, weighted_layers
from chop.passes.graph.transforms.low_bits.neighbours import NORMS, has_own_layer
from chop.passes.graph.transforms.low_bits.scales import FixedScales, can_fix_scales
from chop.passes.graph.transforms.low_bits.soft_rounding import AdaRoundArgs, SoftRounding
from chop.passes.graph.transforms.low_bits.walk import Walk, valid_rows
from chop.statistics.batches import limited_batches
from chop.statistics.deviation import decibel

Learned = SoftRounding | Tensor
"""A parameter that is rounded, or one in float."""
_SOFT_SHARE = 0.8
"""The share of the steps that choose the rounding; in the others, parameters in float make up for it."""


def learn_blocks(graph: MaseGraph, args: AdaRoundArgs) -> dict[str, Any]:
    """Learn the rounding of one block after the other; no output becomes worse than it was."""
    layers = {meta.node: meta for meta in weighted_layers(graph) if has_own_layer(meta)}
    norms = {
        meta.node: meta  # normalisations in float with a weight
        for meta in (graph.annotated_metas() if args.float_learning_rate else ())
        if meta.mase_op in NORMS and meta.quantized is None and has_own_layer(meta)
        if getattr(meta.module, "weight", None) is not None
    }
    changed = {meta.node for meta in graph.metas() if meta.quantized is not None} | set(norms)
    batches = list(limited_batches(args.input_generator, args.num_samples))
    if not batches:
        raise ValueError("adaround: input_generator yields no batches")
    blocks = blocks_of(graph, layers, changed, args.layers_per_block)
    report: dict[str, dict[str, Any]] = {}
    with calibrating(graph, args.seed), ProgressBar("adaround", len(blocks)) as progress:
        walks = Walk(graph, batches), Walk(graph, batches, in_float=True)
        for walk in walks:
            for node in graph.fx_graph.find_nodes(op="placeholder"):
                walk.run(node)
        for block in blocks:
            metas = [each[node] for node in block.nodes for each in (layers, norms) if node in each]
            found = _learn_block(graph, block, metas, walks, args)
            report |= {node.name: found for node in block.nodes if node in layers}
            progress.step()
    return {"layers": report}


def _learn_block(
    graph: MaseGraph, block: LayerBlock, metas: Sequence[NodeMeta], walks: tuple[Walk, Walk], args: AdaRoundArgs
) -> dict[str, float]:
    """Change the layers of a block, run the block in both walks, and report what was gained."""
    walk, in_float = walks
    read = [walk.results(node) for node in block.inputs]
    inputs = [dict(zip(block.inputs, values, strict=True)) for values in zip(*read, strict=True)]
    for node in block.nodes:
        in_float.run(node)
    results = zip(*(in_float.results(node) for node in block.outputs), strict=True)
    problem = _BlockProblem(graph, block, inputs, [_floats(each) for each in results], walk.masks)
    before = problem.decibels()
    old = [(meta, meta.module) for meta in metas]
    parameters = _learned_parameters(problem, metas, args)
    for meta in metas:
        if values := parameters[str(meta.node.target)]:
            set_parameters(meta, values)
    after = problem.decibels()
    if not after > before:
        after = before
        for meta, module in old:
            assert module is not None, "all of them are layers"
            replace_layer(meta, module)
    for node in block.nodes:
        walk.run(node)
    return gain(before, after)


def _floats(values: Any) -> list[Tensor]:
    return [tensor for tensor in tensors_in(values) if tensor.is_floating_point()]


class _BlockProblem(NodeInterpreter):
    """A block with what it reads, and what it should return, by batch."""

    def __init__(
        self,
        graph: MaseGraph,
        block: LayerBlock,
        inputs: Sequence[dict[fx.Node, Any]],
        expected: Sequence[Sequence[Tensor]],
        masks: Sequence[Tensor | None],
    ) -> None:
        super().__init__(graph.model)
        self.block, self.inputs, self.expected, self.masks = block, inputs, expected, masks
        self.values: dict[str, dict[str, Tensor]] = {}
        """By layer: the parameters that it has instead of its own."""

    def decibels(self) -> float:
        """Return the signal-to-noise ratio of the block's output."""
        pairs = zip(self.expected, self.masks, strict=True)
        signal = sum(float(valid_rows(y, mask).double().square().sum()) for each, mask in pairs for y in each)
        noise = sum(float(self.squared_error(i)) for i in range(len(self.inputs)))
        return decibel(signal, noise)

    def squared_error(self, batch: int) -> Tensor:
        """Return the squared error of the block's output for a batch."""
        self.env = pytree.tree_map_only(Tensor, torch.clone, self.inputs[batch])  # ops in place may overwrite them
        for node in self.block.nodes:
            self.env[node] = self.run_node(node)
        found = _floats([self.env[node] for node in self.block.outputs])
        mask, error = self.masks[batch], torch.zeros((), dtype=torch.float64)
        for y, wanted in zip(found, self.expected[batch], strict=True):
            error = error + (valid_rows(y, mask) - valid_rows(wanted, mask)).square().sum()
        return error

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = self.values.get(target)
        layer: Any = self.fetch_attr(target)
        if values is None:
            return layer(*args, **kwargs)
        if not isinstance(layer, QuantizedLayer):
            return functional_call(layer, values, args, kwargs)
        y = functional_call(plain_layer(layer), values, (layer.rounded("data_in_0", *args, **kwargs),))
        return layer.rounded("data_out_0", y)


def _learned_parameters(
    problem: _BlockProblem, metas: Sequence[NodeMeta], args: AdaRoundArgs
) -> dict[str, dict[str, Tensor]]:
    """Return new parameters by layer, learned or from a file."""
    formats = [meta.quantized.formats for meta in metas if meta.quantized is not None]
    old = [value for meta in metas if meta.module is not None for value in meta.module.state_dict().values()]
    given = [tensor for each in (*problem.inputs, *problem.expected) for tensor in tensors_in(each)]
    file = f"adaround-{problem.block.nodes[0].name}"
    store = LayerCheckpoint(args.checkpoint, file, (args.settings(), formats), [*old, *given])
    stored = store.load()
    if stored is None:
        learned = {str(meta.node.target): dict(_learnable(meta.module, args)) for meta in metas}
        _learn(problem, learned, args)
        stored = {
            f"{path}:{key}": _final(value).detach() for path, each in learned.items() for key, value in each.items()
        }
        store.save(stored)
    found: dict[str, dict[str, Tensor]] = {str(meta.node.target): {} for meta in metas}
    for name, value in stored.items():
        path, _, key = name.rpartition(":")
        found[path][key] = value
    return found


def _learnable(layer: Any, args: AdaRoundArgs) -> Iterator[tuple[str, Learned]]:
    """Yield the parameters of a layer that are learned, by name."""
    formats = layer.formats if isinstance(layer, QuantizedLayer) else {}
    for name in ("weight", "bias"):
        value = getattr(layer, name, None)
        if value is None:
            continue
        value = value.detach()
        if name not in formats or not formats[name].rounds:
            if args.float_learning_rate and (name == "bias" or not isinstance(layer, QuantizedLayer)):
                yield name, value.clone().requires_grad_()
        elif can_fix_scales(formats[name], layer.scale_of(name), value):
            importance = torch.ones_like(value) if args.search_scales else None
            fixed = FixedScales.of(formats[name], layer.scale_of(name), value, importance)
            yield name, SoftRounding.of(fixed, value, value.dtype)


def _learn(problem: _BlockProblem, learned: dict[str, dict[str, Learned]], args: AdaRoundArgs) -> None:
    """Change the parameters of a block by gradient descent, with one batch per step."""
    every = [value for each in learned.values() for value in each.values()]
    soft = [value for value in every if isinstance(value, SoftRounding)]
    floats = [value for value in every if isinstance(value, Tensor)]
    if not every:
        return
    groups = [([each.logits for each in soft], args.learning_rate), (floats, args.float_learning_rate)]
    optimizer = torch.optim.Adam([{"params": values, "lr": rate} for values, rate in groups if values])
    size = sum(each.near.numel() for each in soft)
    nearest = [max(float(problem.squared_error(i)), torch.finfo().tiny) for i in range(len(problem.inputs))]
    num_soft = math.ceil(_SOFT_SHARE * args.iterations) if floats else args.iterations
    for step in range(args.iterations):
        batch = step % len(problem.inputs)
        is_soft = step < num_soft
        if floats:  # they come to rest
            progress = 0.5 * (1 + math.cos(math.pi * step / args.iterations))
            optimizer.param_groups[-1]["lr"] = args.float_learning_rate * progress
        with torch.enable_grad():
            problem.values = {
                path: {
                    name: value.value() if is_soft and isinstance(value, SoftRounding) else _final(value)
                    for name, value in each.items()
                }
                for path, each in learned.items()
            }
            loss = problem.squared_error(batch) / nearest[batch]
            for each in soft if is_soft else ():
                share = args.regularization * each.near.numel() / size
                loss = loss + share * each.indecision(step / num_soft)
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    problem.values = {}


def _final(value: Learned) -> Tensor:
    return value if isinstance(value, Tensor) else value.rounded()
