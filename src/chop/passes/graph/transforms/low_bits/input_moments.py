"""The mean product of a layer's inputs: with it, the error of any weight is known without another run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from chop.passes.graph.transforms.low_bits.matrices import input_rows


@dataclass(frozen=True)
class InputMoments:
    """Means over the rows that a layer reads, in float64: of each input, and of the products of two inputs."""

    products: Tensor
    """[groups, inputs, inputs]: the Hessian of the squared error of an output, divided by 2."""
    means: Tensor
    """[groups, inputs]."""
    num_rows: int

    @classmethod
    def of(
        cls, layer: nn.Module, inputs: Iterable[Tensor], masks: Iterable[Tensor | None], where: str
    ) -> InputMoments:
        """Return the moments of a layer's inputs, which are read in slices."""
        products = means = None
        num_rows = 0
        for x, mask in zip(inputs, masks, strict=True):
            for rows in input_rows(layer, x, mask):
                outer, total = rows.transpose(1, 2) @ rows, rows.sum(1)
                products = outer.double() if products is None else products.add_(outer)
                means = total.double() if means is None else means.add_(total)
                num_rows += rows.shape[1]
        if products is None or means is None or num_rows == 0:
            raise ValueError(f"node '{where}': the batches have no rows for it")
        return cls(products.div_(num_rows), means.div_(num_rows), num_rows)

    def energy(self, matrices: Tensor) -> Tensor:
        """Return the mean square of each output of a weight, [groups, outputs]: of a difference, the error."""
        return ((matrices.double() @ self.products) * matrices).sum(-1).clamp_(min=0.0)

    @property
    def importance(self) -> Tensor:
        """The mean square of each input, [groups, 1, inputs]."""
        return torch.diagonal(self.products, dim1=1, dim2=2).unsqueeze(1)
