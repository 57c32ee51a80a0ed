"""The statistics of a model's tensors, to merge with those of other runs and to keep in a file."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor

from chop.ir.graph.storage import write_atomically
from chop.registry import closest
from chop.statistics.base import Statistic, make_statistic
from chop.statistics.layout import Shown
from chop.statistics.profile_file import pack, unpack

Options = Mapping[str, Mapping[str, Any]]
"""The options of each statistic by its name."""
Collection = dict[str, Statistic]
"""Statistics of one tensor, by name."""
Kind = Literal["weights", "args", "results"]


class Place(NamedTuple):
    """Where a tensor is met: a node, whether it goes in or comes out, and the name that it has there."""

    node: str
    kind: Kind
    """`weights` are parameters, the same in each run; `args` and `results` are activations."""
    entry: str


def make_statistics(options: Options, where: str) -> Collection:
    return {name: make_statistic(name, given, where) for name, given in options.items()}


def update(statistics: Collection, tensor: Tensor, place: Place) -> None:
    """Show a tensor to all statistics; they share what they find out."""
    shown = Shown(tensor)
    for name, statistic in statistics.items():
        try:
            statistic.take(shown)
        except ValueError as error:
            raise ValueError(f"'{name}' of '{place.entry}' at node '{place.node}': {error}") from error


@dataclass
class Profile:
    """The statistics of a model's tensors by place. A tensor that is met in several places is measured once.

    Profiles of the same model on different data merge into that of all the data together.
    """

    collections: dict[Place, Collection] = field(default_factory=dict)
    num_samples: int = 0
    """How many rows were run."""

    def merge(self, other: Profile) -> None:
        """Take in all that `other` holds. Weights, which are the same in every run, are not added up but replaced.

        Collections are not changed but made anew, so that profiles may share them.
        """
        merged: dict[tuple[int, int], Collection] = {}
        new: dict[Place, Collection] = {}
        for place, theirs in other.collections.items():
            mine = self.collections.get(place) if place.kind != "weights" else None
            pair = (id(mine), id(theirs))
            if pair not in merged:
                merged[pair] = theirs if mine is None else _merged(mine, theirs, place)
            new[place] = merged[pair]
        self.collections = self.collections | new
        self.num_samples += other.num_samples

    def copied(self) -> Profile:
        return Profile(dict(self.collections), self.num_samples)

    def find(self, node: str, entry: str) -> Collection:
        """The statistics of a tensor by the name that it has at a node; an error that names the nearest if none."""
        found = [c for place, c in self.collections.items() if (place.node, place.entry) == (node, entry)]
        if not found:
            known = {place.node for place in self.collections}
            what, name = ("node", node) if node not in known else (f"entry of node '{node}'", entry)
            known = {p.entry for p in self.collections if p.node == node} if node in known else known
            raise ValueError(f"the profile has no {what} '{name}'; {closest(name, known)}")
        return found[0]

    def results(self) -> dict[Place, dict[str, dict[str, Any]]]:
        """The result of each statistic by place and name: `results()[place]["summary"]["mean"]`."""
        computed: dict[int, dict[str, dict[str, Any]]] = {}
        for collection in self.collections.values():
            if id(collection) not in computed:
                computed[id(collection)] = {name: each.compute() for name, each in collection.items()}
        return {
            place: {name: dict(result) for name, result in computed[id(collection)].items()}
            for place, collection in self.collections.items()
        }

    def save(self, path: str | Path) -> None:
        """Write it to a safetensors file: whole, or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, pack(self.num_samples, self.collections))

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """The profile that was saved in a file."""
        num_samples, collections = unpack(Path(path))
        return cls({Place(*place): collection for place, collection in collections}, num_samples)


def _merged(mine: Collection, theirs: Collection, place: Place) -> Collection:
    """The statistics of both; those that only one has are taken over."""
    both = mine | theirs
    for name in mine.keys() & theirs.keys():
        both[name] = copy.copy(mine[name])
        try:
            both[name].merge(theirs[name])
        except ValueError as error:
            raise ValueError(f"'{name}' of '{place.entry}' at node '{place.node}': {error}") from error
    return both
