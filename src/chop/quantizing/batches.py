"""Batches of any form, as the arguments of a model and labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.capture.signature import named_inputs
from chop.statistics.batches import LabelledBatch

LABELS = ("labels", "label")
"""The keys of a dict that hold labels, as the datasets and models of transformers name them."""
_FORMS = "a tensor, (features, labels), or a dict by argument name, with labels under 'labels'"


@dataclass(frozen=True)
class Batches:
    """Batches of a user for a model, by argument name, on the model's device; they can be read several times."""

    model: nn.Module
    batches: Iterable[Any]

    @classmethod
    def of(cls, model: nn.Module, data: Any) -> Batches:
        """Return the batches of `data`: one batch, or an iterable of batches such as a `DataLoader` or a list.

        A batch is a tensor, `(features, labels)`, or a dict by argument name with labels under `labels`.
        """
        if isinstance(data, Tensor | Mapping | tuple):
            return cls(model, [data])
        if isinstance(data, str) or not isinstance(data, Iterable):
            raise ValueError(f"data must be a batch ({_FORMS}) or yield batches, got {type(data).__name__}")
        return cls(model, list(data) if isinstance(data, Iterator) else data)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next((parameter.device for parameter in self.model.parameters()), torch.device("cpu"))

    def __iter__(self) -> Iterator[LabelledBatch]:
        device = self.device
        for batch in self.batches:
            features, labels = _split(batch)
            inputs = named_inputs(self.model, features)
            yield pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), (inputs, labels))

    def inputs(self) -> Iterator[Mapping[str, Any]]:
        """Yield the batches without labels."""
        return (inputs for inputs, _ in self)

    def first(self) -> Mapping[str, Any]:
        """Return the inputs of the first batch."""
        for inputs in self.inputs():
            return inputs
        raise ValueError("data has no batches")


def _split(batch: Any) -> tuple[Any, Tensor | None]:
    """Return the features and the labels of a batch."""
    match batch:
        case Mapping():
            found = (batch[key] for key in LABELS if key in batch)
            return {key: value for key, value in batch.items() if key not in LABELS}, next(found, None)
        case Tensor():
            return batch, None
        case ((Tensor() | Mapping() | tuple() | list()) as features,):
            return _split(features)
        case ((Tensor() | Mapping() | tuple() | list()) as features, Tensor() as labels):
            return features, labels
    raise ValueError(f"a batch must be {_FORMS}, got {_described(batch)}")


def _described(batch: Any) -> str:
    kind = type(batch).__name__
    if not isinstance(batch, tuple | list):
        return kind
    return f"a {kind} of {len(batch)}: ({', '.join(type(item).__name__ for item in batch)})"
