"""The jets that are made from figures of real ones."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from chop.dataset import JSC, MaseDataModule, Rows, Scaling
from chop.dataset import jsc as jsc_module
from chop.dataset.jsc import CLASSES, FEATURES, generate_rows, read_figures

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data" / "jsc"
FIGURES = json.loads(Path(jsc_module.__file__).with_name("jsc_figures.json").read_text(encoding="utf-8"))


def test_the_figures_are_of_these_features_and_classes() -> None:
    assert tuple(FIGURES["features"]) == FEATURES
    assert tuple(FIGURES["classes"]) == CLASSES


def test_rows_are_shared_out_as_among_real_jets() -> None:
    rows = generate_rows(10_000, seed=3)
    assert rows.features.shape == (10_000, 16)
    assert rows.labels.bincount().tolist() == [2190, 2160, 1910, 1820, 1920]


@pytest.mark.parametrize("num_rows", [10, 11, 999, 1001])
def test_any_number_of_rows_is_made_exactly(num_rows: int) -> None:
    assert len(generate_rows(num_rows, seed=0).features) == num_rows


def test_the_seed_decides_the_rows() -> None:
    first = generate_rows(1000, seed=1).features.clone()
    generate_rows.cache_clear()
    assert generate_rows(1000, seed=1).features.equal(first)
    assert not generate_rows(1000, seed=2).features.equal(first)


def test_quantiles_of_each_class_are_those_of_the_figures() -> None:
    rows = generate_rows(50_000, seed=0)
    levels = torch.arange(33).reshape(-1, 1) / 32
    for kind in range(len(CLASSES)):
        chosen, quantiles = rows.features[rows.labels == kind], torch.tensor(FIGURES["quantiles"][kind])
        below = torch.stack([(chosen < quantile).double().mean(0) for quantile in quantiles])
        up_to = torch.stack([(chosen <= quantile).double().mean(0) for quantile in quantiles])
        # of at least 9,100 rows, a share is off by at most 0.0053 (one deviation)
        assert (below - 0.025 < levels).all()
        assert (levels < up_to + 0.025).all()


def test_features_stay_within_the_range_of_the_figures() -> None:
    rows = generate_rows(50_000, seed=0)
    quantiles = read_figures().quantiles
    for kind in range(len(CLASSES)):
        chosen = rows.features[rows.labels == kind]
        assert (chosen >= quantiles[kind, 0] - 1e-6).all()
        assert (chosen <= quantiles[kind, -1] * (1 + 1e-6) + 1e-6).all()


def test_rank_correlations_are_those_of_the_figures() -> None:
    rows = generate_rows(50_000, seed=0)
    for kind in range(len(CLASSES)):
        chosen = rows.features[rows.labels == kind]
        ranks = chosen.argsort(0).argsort(0).double()
        # the rank correlation of a normal pair with correlation r is 6/pi asin(r/2)
        expected = 6 / math.pi * torch.asin(torch.tensor(FIGURES["correlation"][kind]).double() / 2)
        assert (torch.corrcoef(ranks.T) - expected).abs().max() < 0.05


def test_parts_are_standardised_by_the_training_part() -> None:
    splits = JSC().load()
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [36_000, 4_000, 10_000]
    torch.testing.assert_close(splits.train.features.mean(0), torch.zeros(16), atol=1e-4, rtol=0)
    torch.testing.assert_close(splits.train.features.std(0, correction=0), torch.ones(16), atol=1e-4, rtol=0)


def test_no_row_is_in_two_parts() -> None:
    splits = JSC(num_rows=20_000).load()
    parts = [set(map(tuple, part.features.tolist())) for part in (splits.train, splits.val, splits.test)]
    assert [len(part) for part in parts] == [14_400, 1_600, 4_000]
    assert len(set.union(*parts)) == 20_000


def test_generated_data_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    module = MaseDataModule("jsc", batch_size=8, num_rows=100)
    with caplog.at_level(logging.WARNING, logger="chop"):
        module.setup()
        module.setup()
    text = "jsc (generated look-alike, not comparable with published results)"
    assert caplog.messages == [f"data: {text}"]
    assert module.dataset_info.title == text


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="num_rows of 10 or more, 3 was given"):
        JSC(num_rows=3).load()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small networks on a busy machine train many times slower with more threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real jets (../shared/data) are not on this machine")
def test_a_network_trained_on_generated_jets_recognises_real_ones() -> None:
    splits = JSC(seed=0, num_rows=30_000).load()
    assert splits.scaling is not None
    everything = Rows(
        torch.cat([splits.train.features, splits.val.features, splits.test.features]),
        torch.cat([splits.train.labels, splits.val.labels, splits.test.labels]),
    )
    real = read_real_jets(splits.scaling)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = train_network(everything, num_epochs=8)
    with torch.no_grad():
        accuracy = (model(real.features).argmax(1) == real.labels).float().mean()
    assert accuracy >= 0.70


def read_real_jets(scaling: Scaling) -> Rows:
    table = pd.read_parquet(SHARED / "jsc_openml_1000.parquet")
    features = torch.tensor(table[list(FEATURES)].to_numpy(copy=True))
    labels = torch.tensor([CLASSES.index(kind) for kind in table["class"]])
    return Rows(scaling(features), labels)


def train_network(rows: Rows, num_epochs: int) -> nn.Module:
    sizes = [16, 64, 32, 32]
    hidden: list[nn.Module] = []
    for before, after in pairwise(sizes):
        hidden += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*hidden, nn.Linear(32, 5))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    for _ in range(num_epochs):
        for chosen in batches(len(rows.labels)):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(rows.features[chosen]), rows.labels[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return model


def batches(num_rows: int) -> tuple[Tensor, ...]:
    return torch.randperm(num_rows).tensor_split(num_rows // 256)
