"""Helpers that read the metadata of all nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from chop.ir.graph.meta import annotated_batch_size
from samples import annotated


class Scaled(nn.Module):
    """A model whose first input has no dimensions."""

    def forward(self, scale: Tensor, x: Tensor) -> Tensor:
        return scale * x


def test_the_batch_size_is_that_of_the_first_input_with_dimensions() -> None:
    graph = annotated(Scaled(), scale=torch.tensor(2.0), x=torch.randn(5, 3))
    assert annotated_batch_size(graph.annotated_metas()) == 5


def test_without_an_input_with_dimensions_the_batch_size_is_1() -> None:
    assert annotated_batch_size([]) == 1
