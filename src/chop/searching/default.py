"""What is searched, and how, where a configuration says nothing about it."""

from __future__ import annotations

from chop.config.search import SearchTable, SpaceSetup, SpaceTable, StrategyTable

OPS = ("linear", "conv1d", "conv2d")
"""Ops that multiply by weights: nearly all of the cost."""
WIDTHS = [2, 3, 4, 5, 6, 7, 8]
BIAS_WIDTH = 8


def default_search() -> SearchTable:
    """Fixed-point numbers of 2 to 8 bits for the weights and inputs of each layer, allotted by `ilp`."""
    config = {
        "name": "integer",
        "data_in_width": WIDTHS,
        "data_in_frac_width": ["auto"],
        "weight_width": WIDTHS,
        "weight_frac_width": ["auto"],
        "bias_width": BIAS_WIDTH,
        "bias_frac_width": ["auto"],
    }
    space = SpaceTable(setup=SpaceSetup("type"), seed={op: {"config": config} for op in OPS})
    return SearchTable(space, StrategyTable(name="ilp", setup={"n_trials": 40}))
