"""How much of PyTorch the op table covers; docs/captured-models.md has the share in models."""

from __future__ import annotations

from docs_tables.coverage import coverage_table, function_coverage, layer_coverage, operator_coverage


def test_the_share_does_not_fall() -> None:
    assert layer_coverage().known >= 136
    assert function_coverage().known >= 109
    assert operator_coverage().known >= 153


def test_what_is_counted() -> None:
    layers, functions, operators = layer_coverage(), function_coverage(), operator_coverage()
    assert layers.total > 130
    assert "SyncBatchNorm" in layers.unknown
    assert not {"Sequential", "Module", "RNNBase", "LazyLinear"}.intersection(layers.unknown)
    assert functions.total > 100
    assert "affine_grid" in functions.unknown
    assert operators.total > 150
    assert "_fft_r2c" in operators.unknown
    assert not any(name.endswith("_backward") for name in operators.unknown)


def test_the_table_has_shares() -> None:
    kinds = [row[0] for row in coverage_table().rows]
    assert kinds == ["layers of `torch.nn`", "functions of `torch.nn.functional`", "operators of core ATen"]
