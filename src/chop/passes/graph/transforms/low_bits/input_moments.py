"""Mean products of a layer's inputs: with them, the error of any weight is known without another run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import torch
from torch import Tensor, nn

from chop.passes.graph.transforms.low_bits.matrices import input_rows, to_matrices


@dataclass(frozen=True)
class Drift:
    """Means of the difference between the inputs that a layer reads and those of the float model, in float64."""

    products: Tensor
    """[groups, inputs, inputs]: an input times a difference."""
    means: Tensor
    """[groups, inputs]."""
    outputs: Tensor
    """[groups, outputs]: the mean square of what the weight of the float model makes of it."""


@dataclass(frozen=True)
class InputMoments:
    """Means over the rows that a layer reads, in float64: of each input, and of the products of two inputs."""

    products: Tensor
    """[groups, inputs, inputs]: the Hessian of the squared error of an output, divided by 2."""
    means: Tensor
    """[groups, inputs]."""
    num_rows: int
    drift: Drift | None = None
    """None if the layer reads what it reads in the float model."""

    @classmethod
    def of(
        cls,
        layer: nn.Module,
        inputs: Sequence[Tensor],
        masks: Sequence[Tensor | None],
        where: str,
        originals: Sequence[Tensor] | None = None,
    ) -> InputMoments:
        """Return the moments of a layer's inputs, which are read in slices; `originals` are those of the model."""
        sums: dict[str, Tensor] = {}
        num_rows = 0

        def add(name: str, part: Tensor) -> None:
            sums[name] = sums[name].add_(part) if name in sums else part.double()

        weight = to_matrices(layer, layer.weight.detach())  # type: ignore[operator]
        if originals is not None and all(x.equal(y) for x, y in zip(inputs, originals, strict=True)):
            originals = None
        for i, (x, mask) in enumerate(zip(inputs, masks, strict=True)):
            others = repeat(None) if originals is None else input_rows(layer, originals[i], mask)
            for rows, expected in zip(input_rows(layer, x, mask), others, strict=False):  # `repeat` has no end
                num_rows += rows.shape[1]
                add("products", rows.transpose(1, 2) @ rows)
                add("means", rows.sum(1))
                if expected is not None:
                    difference = rows - expected
                    add("drift", rows.transpose(1, 2) @ difference)
                    add("drift_means", difference.sum(1))
                    add("outputs", (difference @ weight.transpose(1, 2)).square().sum(1))
        if num_rows == 0:
            raise ValueError(f"node '{where}': the batches have no rows for it")
        found = {name: total.div_(num_rows) for name, total in sums.items()}
        drift = None if originals is None else Drift(found["drift"], found["drift_means"], found["outputs"])
        return cls(found["products"], found["means"], num_rows, drift)

    def centred(self) -> tuple[Tensor, Tensor | None]:
        """Return the products, and those of the drift, without means, for a layer whose bias makes up for these."""
        products = self.products - _outer(self.means, self.means)
        drift = self.drift
        return products, None if drift is None else drift.products - _outer(self.means, drift.means)

    def energy(self, matrices: Tensor) -> Tensor:
        """Return the mean square of each output of a weight, [groups, outputs]: of a difference, the error."""
        return ((matrices.double() @ self.products) * matrices).sum(-1).clamp_(min=0.0)

    def mean_error(self, rounded: Tensor, weight: Tensor) -> Tensor:
        """Return the mean error of each output if a weight is rounded like this, [groups, outputs]."""
        error = ((rounded.double() - weight) * self.means.unsqueeze(1)).sum(-1)
        if self.drift is not None:
            error = error + (weight.double() * self.drift.means.unsqueeze(1)).sum(-1)
        return error

    def squared_error(self, rounded: Tensor, weight: Tensor, shift: Tensor | None = None) -> Tensor:
        """Return the mean squared error of each output, [groups, outputs], if `shift` is added to the bias."""
        difference = rounded.double() - weight
        error = self.energy(difference)
        if self.drift is not None:
            error = error + 2 * ((difference @ self.drift.products) * weight).sum(-1) + self.drift.outputs
        if shift is not None:
            error = error + shift * (2 * self.mean_error(rounded, weight) + shift)
        return error.clamp(min=0.0)

    @property
    def importance(self) -> Tensor:
        """The mean square of each input, [groups, 1, inputs]."""
        return torch.diagonal(self.products, dim1=1, dim2=2).unsqueeze(1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a.unsqueeze(-1) * b.unsqueeze(-2)
