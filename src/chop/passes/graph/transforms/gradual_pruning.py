"""Pruning while a model is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from chop.ir import MaseGraph, NodeMeta
from chop.passes.graph.transforms.low_bits.matrices import weight_of
from chop.passes.graph.transforms.prune import PruneArgs, magnitudes, mask_of, masks_of, prunable_layers, set_mask


@dataclass(frozen=True)
class GradualPruning:
    """Masks that grow over the first epochs (Zhu & Gupta, 2017): fast while there are many weights, then slower."""

    args: PruneArgs
    """What is pruned, and the sparsity that is reached."""
    num_epochs: int
    """The sparsity is reached at the start of this epoch, counted from 1."""
    metas: tuple[NodeMeta, ...]
    initial: float
    """The sparsity before training."""

    @classmethod
    def of(cls, graph: MaseGraph, args: PruneArgs, num_epochs: int) -> GradualPruning:
        """Give all layers of a graph that can be pruned a mask; those that have one keep it."""
        metas = prunable_layers(graph)
        if not metas:
            raise ValueError("the model has no linear layer or convolution that could be pruned")
        for meta in metas:
            if mask_of(meta) is None:
                set_mask(meta, torch.ones_like(weight_of(meta.module)))
        graph.model.recompile()
        masks = [mask for meta in metas if (mask := mask_of(meta)) is not None]
        kept = sum(float(mask.sum()) for mask in masks) / sum(mask.numel() for mask in masks)
        if args.sparsity <= 1 - kept:
            raise ValueError(
                f"the model already has a sparsity of {1 - kept:.3g}, which is not below the {args.sparsity:.3g} "
                "that is asked for"
            )
        return cls(args, num_epochs, tuple(metas), 1 - kept)

    def sparsity(self, epoch: int) -> float:
        """Return the sparsity of an epoch, counted from 0: s + (s0 - s) * (1 - t)**3."""
        left = max(0.0, 1 - (epoch + 1) / self.num_epochs)
        return self.args.sparsity + (self.initial - self.args.sparsity) * left**3

    def begin_epoch(self, epoch: int, optimizer_state: Mapping[Any, Mapping[str, Any]]) -> None:
        """Prune to the sparsity of an epoch, in place; weights that are pruned stay so.

        The optimizer's momentum would move pruned weights away from zero, so it is set to zero, too.
        """
        if epoch >= self.num_epochs:
            return
        args = replace(self.args, sparsity=self.sparsity(epoch))
        found = masks_of(self.metas, magnitudes(self.metas), args)
        for meta in self.metas:
            layer: Any = meta.module
            mask = mask_of(meta)
            assert mask is not None, "given in `of`"
            with torch.no_grad():
                mask.copy_(found[meta.node.name])
                for tensor in (layer.weight, *optimizer_state.get(layer.weight, {}).values()):
                    if isinstance(tensor, torch.Tensor) and tensor.shape == mask.shape:
                        tensor.mul_(mask)
            layer.forget()
