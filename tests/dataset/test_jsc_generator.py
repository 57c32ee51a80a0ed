"""Generated jets."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from benchmarks import data as benchmark
from benchmarks.timing import one_thread

from chop.dataset import Rows
from chop.dataset.jsc_generator import generate_rows, read_statistics
from chop.dataset.jsc_published import CLASSES, FEATURES, read_jets

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "jsc"
FIGURES = json.loads((ROOT / "src" / "chop" / "dataset" / "jsc_figures.json").read_text(encoding="utf-8"))


def test_the_statistics_have_all_features_and_classes() -> None:
    assert tuple(FIGURES["features"]) == FEATURES
    assert tuple(FIGURES["classes"]) == CLASSES


def test_classes_are_as_frequent_as_in_real_jets() -> None:
    rows = generate_rows(10_000, seed=3)
    assert rows.features.shape == (10_000, 16)
    assert rows.labels.bincount().tolist() == [2190, 2160, 1910, 1820, 1920]


@pytest.mark.parametrize("num_rows", [10, 11, 999, 1001])
def test_any_number_of_rows_can_be_generated(num_rows: int) -> None:
    assert len(generate_rows(num_rows, seed=0).features) == num_rows


def test_the_seed_determines_the_rows() -> None:
    first = generate_rows(1000, seed=1).features.clone()
    generate_rows.cache_clear()
    assert generate_rows(1000, seed=1).features.equal(first)
    assert not generate_rows(1000, seed=2).features.equal(first)


@pytest.mark.slow
def test_quantiles_of_each_class_match_the_statistics() -> None:
    rows = generate_rows(50_000, seed=0)
    levels = torch.arange(33).reshape(-1, 1) / 32
    for kind in range(len(CLASSES)):
        chosen, quantiles = rows.features[rows.labels == kind], torch.tensor(FIGURES["quantiles"][kind])
        below = torch.stack([(chosen < quantile).double().mean(0) for quantile in quantiles])
        up_to = torch.stack([(chosen <= quantile).double().mean(0) for quantile in quantiles])
        # of at least 9,100 rows, a share is off by at most 0.0053 (one deviation)
        assert (below - 0.025 < levels).all()
        assert (levels < up_to + 0.025).all()


def test_features_stay_within_the_range_of_the_statistics() -> None:
    rows = generate_rows(50_000, seed=0)
    quantiles = read_statistics().quantiles
    for kind in range(len(CLASSES)):
        chosen = rows.features[rows.labels == kind]
        assert (chosen >= quantiles[kind, 0] - 1e-6).all()
        assert (chosen <= quantiles[kind, -1] * (1 + 1e-6) + 1e-6).all()


@pytest.mark.slow
def test_rank_correlations_match_the_statistics() -> None:
    rows = generate_rows(50_000, seed=0)
    for kind in range(len(CLASSES)):
        chosen = rows.features[rows.labels == kind]
        ranks = chosen.argsort(0).argsort(0).double()
        # the rank correlation of a normal pair with correlation r is 6/pi asin(r/2)
        expected = 6 / math.pi * torch.asin(torch.tensor(FIGURES["correlation"][kind]).double() / 2)
        assert (torch.corrcoef(ranks.T) - expected).abs().max() < 0.05


needs_real_jets = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the real jets (../shared/data) are not on this machine"
)


@pytest.mark.slow
@needs_real_jets
def test_refitted_statistics_equal_the_shipped_ones() -> None:
    fitted, shipped = benchmark.fit_statistics(read_real_jets()), read_statistics()
    assert fitted.counts.equal(shipped.counts)
    torch.testing.assert_close(fitted.quantiles, shipped.quantiles, atol=6e-4, rtol=0)  # shipped ones are rounded
    torch.testing.assert_close(fitted.mixing, shipped.mixing, atol=1e-3, rtol=0)


def test_the_benchmark_is_skipped_without_real_jets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "REAL_JETS", tmp_path / "nowhere")
    assert benchmark.run() == []
    assert "data: skipped, because the real jets are not on this machine" in capsys.readouterr().out


@pytest.mark.slow
@needs_real_jets
def test_the_benchmark_runs() -> None:
    assert len(benchmark.run(quick=True)) == 2


@pytest.mark.slow
@needs_real_jets
def test_a_network_trained_on_generated_jets_recognises_real_ones() -> None:
    with one_thread(), torch.random.fork_rng():
        assert benchmark.wrong_share(read_statistics(), read_real_jets(), seed=0) <= 0.30


def read_real_jets() -> Rows:
    jets = read_jets(SHARED / "jsc_openml_1000.parquet")
    return Rows(jets.features, jets.labels)
