"""Set unimportant weights to zero, for good or until the masks are removed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.config import option
from chop.formats import FORMATS
from chop.formats.float import Float
from chop.hardware.resolve.layers import replace_layer, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import evaluation_mode, run_model
from chop.nn.quantized import QuantizedLayer, quantize_layer
from chop.passes.base import LabelledDataArgs, NoArgs, PassResult, SeedArgs, register_pass
from chop.passes.graph.transforms.low_bits.input_moments import InputMoments
from chop.passes.graph.transforms.low_bits.layers import calibrating
from chop.passes.graph.transforms.low_bits.matrices import MATRIX_OPS, from_matrices, to_matrices, weight_of
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.batches import limited_labelled_batches

Score = Literal["l1", "l2", "random", "wanda", "movement"]
_NEEDS_DATA = ("wanda", "movement")


@dataclass(frozen=True, kw_only=True)
class PruneArgs(SeedArgs, LabelledDataArgs):
    """Arguments of `prune`."""

    sparsity: float = 0.5
    """The share of weights that become zero; for a pattern such as `2:4`, what the pattern says."""
    method: Score = "l1"
    """What makes a weight important: its magnitude (l1, l2), this times its input (wanda), or its gradient."""
    scope: Literal["local", "global"] = "local"
    """Whether each layer has this sparsity, or all layers together."""
    granularity: str = "element"
    """What is pruned: an `element`, an output `channel`, or n of m neighbours, such as `2:4`: 2 of 4 are kept."""
    num_samples: int = option(512, least=1, help="The largest number of rows of data.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.sparsity < 1:
            raise ValueError(f"'sparsity' must be at least 0 and below 1, got {self.sparsity}")
        if self.granularity not in ("element", "channel") and self.pattern is None:
            raise ValueError(
                f"'granularity' must be 'element', 'channel' or a pattern such as '2:4', got '{self.granularity}'"
            )
        if self.method in _NEEDS_DATA and self.labelled_batches is None:
            raise ValueError(f"method '{self.method}' needs 'labelled_batches'")

    @property
    def pattern(self) -> tuple[int, int] | None:
        """How many of how many neighbours are kept."""
        found = re.fullmatch(r"(\d+):(\d+)", self.granularity)
        kept, of = (int(each) for each in found.groups()) if found else (0, 0)
        return (kept, of) if 0 < kept < of else None


@register_pass("prune", kind="transform")
def prune_transform_pass(graph: MaseGraph, args: PruneArgs) -> PassResult:
    """Set the least important weights of linear layers and convolutions to zero.

    Each layer keeps a mask, `weight_mask`, with which training leaves these weights at zero; it is saved with the
    graph. Quantise before or after. Weights that are already pruned stay so, also at a lower `sparsity`: call the
    pass again with a higher one between epochs. `info["layers"]` has the sparsity of each layer.
    """
    metas = prunable_layers(graph)
    scores = _scores(graph, metas, args)
    masks = masks_of(metas, scores, args)
    for meta in metas:
        set_mask(meta, masks[meta.node.name])
    report = {name: {"sparsity": 1 - float(mask.double().mean())} for name, mask in masks.items()}
    total = sum(mask.numel() for mask in masks.values())
    kept = sum(float(mask.sum()) for mask in masks.values())
    return graph, {"layers": report, "sparsity": 1 - kept / total if total else 0.0}


def prunable_layers(graph: MaseGraph) -> list[NodeMeta]:
    """Return the linear layers and convolutions of a graph; of several nodes that call one layer, the first."""
    metas = [meta for meta in graph.annotated_metas() if meta.mase_op in MATRIX_OPS and meta.module is not None]
    unique = {id(meta.module): meta for meta in reversed(metas)}
    return [meta for meta in metas if unique[id(meta.module)] is meta]


def set_mask(meta: NodeMeta, mask: Tensor) -> None:
    """Give a layer a mask, and zeros where it is zero; the original model keeps its weights."""
    layer: Any = meta.module
    new = with_parameters(layer, {"weight": layer.weight.detach() * mask})
    if not isinstance(new, QuantizedLayer):
        new = quantize_layer(new, {"weight": Float()}, FORMATS["float"].__name__)
    new.set_mask("weight", mask)
    new.training = layer.training
    replace_layer(meta, new)


def _scores(graph: MaseGraph, metas: list[NodeMeta], args: PruneArgs) -> dict[str, Tensor]:
    """Return the importance of each weight, in the shape of the weight."""
    weights = magnitudes(metas)
    if args.method == "random":
        generator = torch.Generator().manual_seed(args.seed)
        return {
            name: torch.rand(weight.shape, generator=generator).to(weight.device)
            for name, weight in weights.items()
        }
    if args.method == "movement":
        return _movement(graph, metas, args)
    if args.method == "wanda":
        norms = _input_norms(graph, metas, args)
        return {name: weight * norms[name] for name, weight in weights.items()}
    return {name: weight if args.method == "l1" else weight.square() for name, weight in weights.items()}


def magnitudes(metas: Sequence[NodeMeta]) -> dict[str, Tensor]:
    """Return the magnitudes of the weights of layers."""
    return {meta.node.name: weight_of(meta.module).abs() for meta in metas}


def _input_norms(graph: MaseGraph, metas: list[NodeMeta], args: PruneArgs) -> dict[str, Tensor]:
    """Return the norm of each weight's input (Wanda, Sun et al., 2024)."""
    assert args.labelled_batches is not None, "checked when the arguments were read"
    batches = [batch for batch, _ in limited_labelled_batches(args.labelled_batches, args.num_samples)]
    todo, found = {meta.node: meta for meta in metas}, {}
    with calibrating(graph, args.seed):
        walk = Walk(graph, batches)
        for node in graph.fx_graph.nodes:
            if node in todo:
                layer = todo[node].module
                assert layer is not None, "only layers are pruned"
                moments = InputMoments.of(layer, walk.inputs(node), walk.masks, node.name)
                norms = moments.importance.sqrt().expand_as(to_matrices(layer, weight_of(layer)))
                found[node.name] = from_matrices(layer, norms).to(weight_of(layer).dtype)
            walk.run(node)
    return found


def _movement(graph: MaseGraph, metas: list[NodeMeta], args: PruneArgs) -> dict[str, Tensor]:
    """Return how far the gradient moves each weight away from zero (Sanh et al., 2020)."""
    assert args.labelled_batches is not None, "checked when the arguments were read"
    scores = {meta.node.name: torch.zeros_like(weight_of(meta.module)) for meta in metas}
    with evaluation_mode(graph.model), torch.enable_grad():
        for batch, labels in limited_labelled_batches(args.labelled_batches, args.num_samples):
            if labels is None:
                raise ValueError("method 'movement' needs batches with labels")
            scores_of_classes = run_model(graph, batch)
            loss = F.cross_entropy(scores_of_classes, labels.to(scores_of_classes.device))
            layers: list[Any] = [meta.module for meta in metas]
            gradients = torch.autograd.grad(loss, [layer.weight for layer in layers])
            for meta, gradient in zip(metas, gradients, strict=True):
                scores[meta.node.name] -= weight_of(meta.module) * gradient
    return scores


def masks_of(metas: Sequence[NodeMeta], scores: Mapping[str, Tensor], args: PruneArgs) -> dict[str, Tensor]:
    """Return for each layer 1 for the weights that are kept and 0 for the others; 0 stays 0."""
    earlier = {}
    for meta in metas:
        mask = mask_of(meta)
        earlier[meta.node.name] = torch.ones_like(weight_of(meta.module)) if mask is None else mask
    pooled = {name: _pooled(scores[name], mask, args) for name, mask in earlier.items()}
    return {name: mask * earlier[name] for name, mask in _masks(metas, pooled, scores, args).items()}


def mask_of(meta: NodeMeta) -> Tensor | None:
    """Return the mask of a layer's weight; None if it is not pruned."""
    return meta.module.mask_of("weight") if isinstance(meta.module, QuantizedLayer) else None


def _masks(
    metas: Sequence[NodeMeta], pooled: Mapping[str, Tensor], scores: Mapping[str, Tensor], args: PruneArgs
) -> dict[str, Tensor]:
    """Return the masks that scores alone ask for."""
    if args.pattern is not None:
        return {meta.node.name: _pattern(meta, pooled[meta.node.name], *args.pattern) for meta in metas}
    if args.scope == "local":
        return {name: _kept(score, args.sparsity).expand_as(scores[name]) for name, score in pooled.items()}
    flat = torch.cat([score.expand_as(scores[name]).flatten() for name, score in pooled.items()])
    kept = _kept(flat, args.sparsity).split([scores[name].numel() for name in pooled])
    return {name: mask.reshape(scores[name].shape) for name, mask in zip(pooled, kept, strict=True)}


def _pooled(score: Tensor, mask: Tensor, args: PruneArgs) -> Tensor:
    """Return the scores of what is pruned, elements or output channels; what was pruned before has the lowest."""
    if args.granularity != "channel":
        return score.masked_fill(mask == 0, -torch.inf)
    by_channel = (score * mask).flatten(1).mean(1).masked_fill(mask.flatten(1).amax(1) == 0, -torch.inf)
    return by_channel.reshape(-1, *[1] * (score.dim() - 1))


def _kept(score: Tensor, sparsity: float) -> Tensor:
    """Return 1 for all but the given share with the lowest scores."""
    mask = torch.ones(score.numel(), device=score.device)
    mask[score.flatten().argsort(stable=True)[: round(sparsity * score.numel())]] = 0
    return mask.reshape(score.shape)


def _pattern(meta: NodeMeta, score: Tensor, kept: int, of: int) -> Tensor:
    """Return 1 for the `kept` highest of each `of` neighbours along the inputs of a layer."""
    layer = meta.module
    assert layer is not None, "only layers are pruned"
    rows = to_matrices(layer, score)
    padded = F.pad(rows, (0, -rows.shape[-1] % of), value=-torch.inf).unflatten(-1, (-1, of))
    mask = torch.zeros_like(padded).scatter_(-1, padded.topk(kept, -1).indices, 1.0)
    return from_matrices(layer, mask.flatten(-2)[..., : rows.shape[-1]])


@register_pass("prune_detach", kind="transform")
def prune_detach_transform_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Remove the masks of pruned layers; their weights stay zero until they are trained.

    `info["detached"]` lists the nodes whose layer had a mask.
    """
    detached = []
    for meta in graph.annotated_metas():
        if isinstance(meta.module, QuantizedLayer) and mask_of(meta) is not None:
            meta.module.set_mask("weight", None)
            detached.append(meta.node.name)
    return graph, {"detached": detached}
