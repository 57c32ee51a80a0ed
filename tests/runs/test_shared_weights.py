"""Weights that two models have in common."""

from __future__ import annotations

import copy

import torch
from torch import nn

from chop.runs.shared_weights import share_equal_weights


def test_only_equal_weights_use_the_same_memory() -> None:
    ours = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2), "c": nn.Linear(2, 2)})
    theirs = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2), "c": nn.Linear(2, 4)})
    theirs["a"].load_state_dict(ours["a"].state_dict())
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    share_equal_weights(ours, theirs)
    known = dict(theirs.named_parameters())
    shared = [name for name, weight in ours.named_parameters() if weight.data_ptr() == known[name].data_ptr()]
    assert shared == ["a.weight", "a.bias"]
    assert all(torch.equal(weight, before[name]) for name, weight in ours.state_dict().items())


def test_tied_weights_stay_tied() -> None:
    first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    second.weight = first.weight
    ours = nn.Sequential(first, second)
    theirs = copy.deepcopy(ours)
    share_equal_weights(ours, theirs)
    assert second.weight is first.weight
    assert [weight.data_ptr() for weight in theirs.parameters()] == [first.weight.data_ptr()]
