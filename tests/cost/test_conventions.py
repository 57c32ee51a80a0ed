"""Conventions, and every op of the table under them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chop.cost import CONVENTIONS, bitops, count, flops, operations
from chop.ir import MaseGraph, NodeMeta
from chop.ops import OPS, Call, Count
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass
from chop.registry import UnknownNameError
from samples import SAMPLES, annotated


def first_layer(*layers: nn.Module) -> NodeMeta:
    graph, _ = init_metadata_analysis_pass(MaseGraph(nn.Sequential(*layers)), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": torch.randn(3, 4)}})
    return graph.annotated_metas()[1]


@pytest.mark.parametrize(
    ("layer", "mase", "macs", "two_per_mac"),
    [(nn.Linear(4, 5), 60, 60, 120), (nn.ReLU(), 12, 0, 12), (nn.BatchNorm1d(4), 48, 0, 48)],
)
def test_conventions_of_operations(layer: nn.Module, mase: int, macs: int, two_per_mac: int) -> None:
    meta = first_layer(layer)
    assert [operations(meta, name) for name in ("mase", "macs", "flops")] == [mase, macs, two_per_mac]
    assert operations(meta) == flops(meta) == mase


def test_an_unknown_convention_suggests_the_nearest() -> None:
    meta = first_layer(nn.ReLU())
    with pytest.raises(UnknownNameError, match="unknown convention 'mac'; did you mean 'macs'"):
        flops(meta, "mac")
    with pytest.raises(UnknownNameError, match="unknown convention 'bop'; did you mean 'bops'"):
        bitops(meta, "bop")


def test_a_convention_of_the_other_kind_is_rejected() -> None:
    meta = first_layer(nn.ReLU())
    with pytest.raises(ValueError, match="convention 'bops' counts bit operations only"):
        flops(meta, "bops")
    with pytest.raises(ValueError, match="convention 'macs' does not count bit operations"):
        bitops(meta, "macs")


def test_every_convention_counts_something_and_has_a_summary() -> None:
    for convention in CONVENTIONS.values():
        assert convention.summary
        assert convention.operations or convention.bitops


WITHOUT_OPERATIONS = {"cat", "embedding", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"}
"""Ops that can be quantised and only move data."""


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.quantizable])
def test_every_op_that_can_be_quantised_counts_something(name: str) -> None:
    sample = SAMPLES[name]()[0]
    graph = annotated(sample.model(), **sample.arguments())
    (found,) = [count(meta) for meta in graph.annotated_metas() if meta.mase_op == name]
    assert found is not None
    total = found.macs + found.multiplies + found.adds
    assert total == 0 if name in WITHOUT_OPERATIONS else total > 0


@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.mase_type == "implicit_func"])
def test_ops_that_move_data_are_free_and_never_quantised(name: str) -> None:
    assert OPS[name].count(Call({"data_in_0": (2, 3)}, ((2, 3),), {})) == Count()
    assert not OPS[name].quantizable
