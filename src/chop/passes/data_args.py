"""Arguments that several passes share: none, and those of passes that run a graph on data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from chop.config import Options, option

Batches = Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class NoArgs:
    """No arguments."""


@dataclass(frozen=True, kw_only=True)
class BatchArgs(Options):
    """The batches that a pass runs the graph on."""

    input_generator: Batches | None = option(
        None, help='Batches by argument name, such as `{"x": tensor}`, or an `InputGenerator`.'
    )


@dataclass(frozen=True, kw_only=True)
class DataArgs(BatchArgs):
    """The batches that a pass runs the graph on, and how many of their rows."""

    num_samples: int = option(
        256, least=1, help="The largest number of rows (images, sentences, windows of a text) to run."
    )


@dataclass(frozen=True, kw_only=True)
class SeedArgs(Options):
    """The random numbers of a pass."""

    seed: int = option(0, help="The seed of the random numbers of the pass.")


@dataclass(frozen=True, kw_only=True)
class LabelledDataArgs(Options):
    """The data with labels that a pass measures the accuracy on."""

    labelled_batches: Iterable[tuple[Mapping[str, Any], Tensor]] | None = option(
        None, help="Pairs of a batch and the labels of its rows; None: what needs labels is not measured."
    )
