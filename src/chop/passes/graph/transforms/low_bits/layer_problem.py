"""A quantised layer and what is known of its inputs: the error that any weight and bias would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from chop.formats import Format
from chop.ir import NodeMeta
from chop.nn.quantized import QuantizedLayer
from chop.passes.graph.transforms.low_bits.input_moments import InputMoments
from chop.passes.graph.transforms.low_bits.matrices import from_matrices, to_matrices, weight_of
from chop.passes.graph.transforms.low_bits.scales import FixedScales, can_fix_scales
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.deviation import decibel


@dataclass(frozen=True)
class LayerProblem:
    """A quantised layer, its weight as matrices in float32 or float64, and the moments of its inputs."""

    meta: NodeMeta
    layer: QuantizedLayer
    original: Tensor
    """The weight of the float model, [groups, outputs, inputs]."""
    moments: InputMoments

    @classmethod
    def of(cls, meta: NodeMeta, walk: Walk, originals: Sequence[Tensor] | None = None) -> LayerProblem:
        """Return the layer of a node with the inputs that it has in a walk, and in the float model."""
        layer = meta.quantized
        assert isinstance(layer, QuantizedLayer), "only quantised layers are changed"
        inputs = [layer.rounded("data_in_0", x) for x in walk.inputs(meta.node)]
        moments = InputMoments.of(layer, inputs, walk.masks, meta.node.name, originals)
        return cls(meta, layer, to_matrices(layer, weight_of(layer)), moments)

    @property
    def number_format(self) -> Format:
        return self.layer.formats["weight"]

    @property
    def bias(self) -> Tensor | None:
        """The bias of the float model, [groups, outputs]."""
        bias = self.layer.bias
        return bias.detach().reshape(self.original.shape[:2]) if isinstance(bias, Tensor) else None

    def tensors(self) -> list[Tensor]:
        """Return the tensors that a result depends on."""
        moments, layer = self.moments, self.layer
        found = [self.original, self.bias, moments.products, moments.means]
        found += [layer.scale_of("weight"), layer.scale_of("bias"), layer.mask_of("weight")]
        if moments.drift is not None:
            found += [moments.drift.products, moments.drift.means, moments.drift.outputs]
        return [torch.zeros(0) if each is None else each for each in found]

    @cached_property
    def _products(self) -> tuple[Tensor, Tensor | None]:
        """The products of inputs, and with their drift; without means if the bias can make up for them."""
        if self._free_bias:
            return self.moments.centred()
        drift = self.moments.drift
        return self.moments.products, None if drift is None else drift.products

    @property
    def hessian(self) -> Tensor:
        """The products that the rounded weight is chosen for."""
        return self._products[0]

    @property
    def _free_bias(self) -> bool:
        number_format = self.layer.formats.get("bias")
        return self.bias is not None and (number_format is None or not number_format.rounds)

    def damping(self, given: float | None) -> float:
        """Return the damping that is given, else a tenth of the inputs per row, from 0.001 to 0.01."""
        few = 0.1 * self.original.shape[-1] / self.moments.num_rows
        return min(max(few, 0.001), 0.01) if given is None else given

    def target(self, damping: float) -> Tensor:
        """Return the weight that makes up for the errors of the layers before, and of a rounded bias.

        It has the least squared error, with `damping` times the mean square of the inputs for each change.
        """
        hessian, drift = self._products
        if drift is None and (self._free_bias or self.bias is None):
            return self.original
        wrong = torch.zeros_like(self.original, dtype=torch.float64)
        if drift is not None:
            wrong += self.original.double() @ drift.transpose(1, 2)
        if self.bias is not None and not self._free_bias:
            shift = self._rounded_bias(self.bias) - self.bias
            wrong += shift.double().unsqueeze(-1) * self.moments.means.unsqueeze(1)
        change: Tensor = torch.linalg.solve(with_damping(hessian, damping), wrong, left=False)
        return (self.original - change).to(self.original.dtype)

    def rounded(self, matrices: Tensor) -> Tensor:
        """Return matrices as the layer rounds them."""
        weight = from_matrices(self.layer, matrices).to(weight_of(self.layer).dtype)
        return to_matrices(self.layer, self.layer.rounded("weight", weight))

    def bias_for(self, matrices: Tensor) -> Tensor | None:
        """Return the bias that makes up for the mean error of a weight; None if the layer has no bias."""
        if self.bias is None:
            return None
        return (self.bias - self.moments.mean_error(self.rounded(matrices), self.original)).to(self.bias.dtype)

    def error(self, matrices: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the mean squared error of each output with this weight and bias, [groups, outputs]."""
        shift = None if bias is None or self.bias is None else self._rounded_bias(bias).double() - self.bias
        return self.moments.squared_error(self.rounded(matrices), self.original, shift)

    def decibels(self, matrices: Tensor, bias: Tensor | None) -> float:
        """Return the signal-to-noise ratio of the layer's output with a weight and a bias."""
        signal = float(self.moments.energy(self.original).sum())
        return decibel(signal, float(self.error(matrices, bias).sum()))

    @property
    def has_fixed_scales(self) -> bool:
        """Whether the elements of the weight can be rounded one by one."""
        return can_fix_scales(self.number_format, self.layer.scale_of("weight"), weight_of(self.layer))

    def fixed_scales(self, search: bool, matrices: Tensor) -> FixedScales:
        """Return the scales of a weight, chosen for the least error if `search`; as matrices."""
        layer, weight = self.layer, from_matrices(self.layer, matrices)
        importance = self.moments.importance.to(weight.dtype).expand_as(matrices) if search else None
        shaped = None if importance is None else from_matrices(layer, importance)
        found = FixedScales.of(self.number_format, layer.scale_of("weight"), weight, shaped)
        return found.mapped(lambda tensor: to_matrices(layer, tensor))

    def multiplied(self, fixed: FixedScales, factor: Tensor) -> FixedScales:
        """Return scales, as matrices, multiplied by a factor per element that is the same in each group."""
        layer = self.layer
        changed = fixed.mapped(lambda tensor: from_matrices(layer, tensor)).multiplied(from_matrices(layer, factor))
        return changed.mapped(lambda tensor: to_matrices(layer, tensor))

    def no_worse(self, matrices: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return weight and bias: for outputs where the matrices are better than rounding to nearest, these."""
        new = self.bias_for(matrices)
        better = self.error(matrices, new) < self.error(self.original, self.bias)
        mixed = torch.where(better.unsqueeze(-1), matrices, self.original)
        mixed_bias = None if new is None or self.bias is None else torch.where(better, new, self.bias)
        candidates = [(mixed, mixed_bias), (matrices, new), (self.original, self.bias)]
        errors = [float(self.error(*each).sum()) for each in candidates]
        return candidates[errors.index(min(errors))]

    def _rounded_bias(self, bias: Tensor) -> Tensor:
        return self.layer.rounded("bias", bias.flatten()).reshape(bias.shape)


def with_damping(products: Tensor, damping: float) -> Tensor:
    """Return products with a fraction of the mean of their diagonal added to it; no element of it is 0."""
    diagonal = products.diagonal(dim1=-2, dim2=-1)
    added = (damping * diagonal.mean(-1, keepdim=True)).clamp(min=torch.finfo(products.dtype).tiny)
    total = torch.where(diagonal + added == 0, 1.0, diagonal + added)
    return products + torch.diag_embed(total - diagonal)
