"""Similarity of sentences: whether a changed model ranks pairs of sentences as the original does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.tasks.base import Evaluation, Reduce, first_tensor, register_task

MASK = "attention_mask"


@register_task("similarity")
class Similarity:
    """A vector per sentence: Spearman's rank correlation of the cosine similarities with those of the original."""

    compares: ClassVar[bool] = True

    def meter(self, info: DatasetInfo, device: torch.device, original: Evaluation | None = None) -> SimilarityMeter:
        return SimilarityMeter(None if original is None else original.embeddings)

    def check_output(self, output: Any, num_rows: int, info: DatasetInfo) -> str | None:
        shape = first_tensor(output).shape
        tokens = info.feature_shape[-1]
        if shape[0] == num_rows and (len(shape) == 2 or (len(shape) == 3 and shape[1] == tokens)):
            return None
        return f"[{num_rows}, {tokens}, size] or [{num_rows}, size], a vector per token or per sentence"


class SimilarityMeter:
    """The vectors of all sentences."""

    def __init__(self, original: Tensor | None) -> None:
        self._original = original
        self._vectors: list[Tensor] = []

    def add(self, output: Any, labels: Tensor, inputs: Mapping[str, Tensor]) -> None:
        hidden = first_tensor(output).float()
        self._vectors.append(hidden.cpu() if hidden.dim() == 2 else mean_of_tokens(hidden, inputs.get(MASK)).cpu())

    def read(self, reduce: Reduce | None = None) -> Evaluation:
        if reduce is not None:
            raise ValueError("the task 'similarity' runs on one device only")
        found = torch.cat(self._vectors)
        original = found if self._original is None else self._original
        correlation = rank_correlation(pair_similarities(found), pair_similarities(original))
        return Evaluation({"rank_correlation": correlation}, embeddings=found)


def mean_of_tokens(hidden: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean [sentences, size] of the vectors [sentences, tokens, size] of all tokens but padding."""
    if mask is None:
        return hidden.mean(dim=1)
    weights = mask.to(hidden).unsqueeze(2)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)


def pair_similarities(vectors: Tensor) -> Tensor:
    """Return the cosine similarity of every pair of different rows."""
    unit = F.normalize(vectors.double(), dim=1)
    above = torch.ones(len(unit), len(unit), dtype=torch.bool).triu(diagonal=1)
    return (unit @ unit.T)[above]


def rank_correlation(first: Tensor, second: Tensor) -> float:
    """Return Spearman's rank correlation; NaN if all values of one tensor are equal."""
    ranks = torch.stack([_ranks(first), _ranks(second)])
    return torch.corrcoef(ranks)[0, 1].item()


def _ranks(values: Tensor) -> Tensor:
    """Return the rank of each value; equal values share the mean of their ranks."""
    _, inverse, counts = values.unique(return_inverse=True, return_counts=True)
    ends = counts.cumsum(0).double()
    ranks: Tensor = (ends - (counts - 1) / 2)[inverse]
    return ranks
