"""Profiles: the statistics of a model's tensors, which can be merged and saved."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from torch import Tensor

from chop.display.html import html_table
from chop.display.numbers import counted
from chop.files import write_bytes
from chop.registry import closest
from chop.statistics.base import Statistic, make_statistic
from chop.statistics.fingerprint import Fingerprint
from chop.statistics.joint_results import compute_all
from chop.statistics.layout import ObservedTensor
from chop.statistics.profile_file import pack, unpack

Options = Mapping[str, Mapping[str, Any]]
"""The options of each statistic by its name."""
Collection = dict[str, Statistic]
"""The statistics of one tensor by name."""
Kind = Literal["weights", "args", "results"]


class TensorKey(NamedTuple):
    """The key of a tensor in a graph: `TensorKey("fc1", "args", "data_in_0")` is the first input of node `fc1`."""

    node: str
    kind: Kind
    """`weights` are parameters, which are the same in each run; `args` and `results` are activations."""
    entry: str


def make_statistics(options: Options, where: str) -> Collection:
    """Return new statistics with these options; `where` begins each error message."""
    return {name: make_statistic(name, given, where) for name, given in options.items()}


def update(statistics: Collection, tensor: Tensor, key: TensorKey) -> None:
    """Update all statistics with a tensor; they share intermediate results."""
    observed = ObservedTensor(tensor)
    for name, statistic in statistics.items():
        try:
            statistic.update_from(observed)
        except ValueError as error:
            raise ValueError(f"'{name}' of '{key.entry}' at node '{key.node}': {error}") from error


@dataclass
class Profile:
    """The statistics of a model's tensors. A tensor that several nodes use is measured once.

    Profiles of the same model on different data can be merged; the result equals the profile of all data.
    """

    collections: dict[TensorKey, Collection] = field(default_factory=dict)
    num_samples: int = 0
    """The number of rows that were run."""
    fingerprints: dict[str, Fingerprint] = field(default_factory=dict)
    """What the nodes compute, by their names."""

    def _repr_html_(self) -> str:
        """Return the results of each tensor that are single numbers, as a table for notebooks."""
        rows = [
            (key.node, key.entry, name, _single_numbers(found))
            for key, results in self.results().items()
            for name, found in results.items()
        ]
        headers = ("node", "tensor", "statistic", "results")
        return html_table(headers, rows, f"profile of {counted(self.num_samples, 'sample')}")

    def merge(self, other: Profile) -> None:
        """Add everything in `other`. Weights are the same in every run, so they are replaced rather than added.

        Merged collections are new objects, so that profiles can share collections.
        """
        merged: dict[tuple[int, int], Collection] = {}
        new: dict[TensorKey, Collection] = {}
        for key, theirs in other.collections.items():
            mine = self.collections.get(key) if key.kind != "weights" else None
            pair = (id(mine), id(theirs))
            if pair not in merged:
                merged[pair] = theirs if mine is None else _merged(mine, theirs, key)
            new[key] = merged[pair]
        self.collections = self.collections | new
        self.num_samples += other.num_samples
        self.fingerprints |= other.fingerprints

    def copied(self) -> Profile:
        """Return a profile that can be merged into without changing this one."""
        return Profile(dict(self.collections), self.num_samples, dict(self.fingerprints))

    def find(self, node: str, entry: str) -> Collection:
        """Return the statistics of a tensor: `find("fc1", "data_in_0")`. Raise ValueError if there are none."""
        found = {key.entry: each for key, each in reversed(self.collections.items()) if key.node == node}
        if not found:
            raise ValueError(
                f"the profile has no node '{node}'; {closest(node, (key.node for key in self.collections))}"
            )
        if entry not in found:
            raise ValueError(f"the profile has no '{entry}' for node '{node}'; {closest(entry, found)}")
        return found[entry]

    def results(self) -> dict[TensorKey, dict[str, dict[str, Any]]]:
        """Return the result of each statistic: `results()[key]["summary"]["mean"]`."""
        distinct = {id(collection): collection for collection in self.collections.values()}
        results = iter(compute_all([each for collection in distinct.values() for each in collection.values()]))
        computed = {number: dict(zip(collection, results, strict=False)) for number, collection in distinct.items()}
        return {
            key: {name: dict(result) for name, result in computed[id(collection)].items()}
            for key, collection in self.collections.items()
        }

    def save(self, path: str | Path) -> None:
        """Write the profile to a safetensors file, atomically."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, pack(self.num_samples, self.collections, self.fingerprints))

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Return the profile that was saved in a file."""
        num_samples, collections, nodes = unpack(Path(path))
        fingerprints = {name: Fingerprint(*each) for name, each in nodes.items()}
        return cls({TensorKey(*key): collection for key, collection in collections}, num_samples, fingerprints)


def _merged(mine: Collection, theirs: Collection, key: TensorKey) -> Collection:
    """Return the merged statistics; those that only one collection has are kept."""
    both = mine | theirs
    for name in mine.keys() & theirs.keys():
        both[name] = copy.copy(mine[name])
        try:
            both[name].merge(theirs[name])
        except ValueError as error:
            raise ValueError(f"'{name}' of '{key.entry}' at node '{key.node}': {error}") from error
    return both


def _single_numbers(results: Mapping[str, Any]) -> str:
    numbers = {name: value for name, value in results.items() if isinstance(value, int | float)}
    return ", ".join(f"{name} {value:.6g}" for name, value in numbers.items())
