"""Pruning of graphs."""

from chop.passes.graph.transforms.prune.prune import prune_detach_transform_pass, prune_transform_pass

__all__ = ["prune_detach_transform_pass", "prune_transform_pass"]
