"""The model and the data of a configuration, loaded and checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from chop.config import TestConfig, TrainConfig
from chop.runs import Experiment
from chop.training.threads import limit_threads_for


def test_the_hash_is_of_the_rows(train_config: TrainConfig) -> None:
    experiments = [
        Experiment.load(replace(train_config, data_options={"num_rows": count})) for count in (100, 100, 101)
    ]
    hashes = [experiment.data.splits.sha256 for experiment in experiments]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_seed_decides_the_untrained_weights(train_config: TrainConfig) -> None:
    first, again, other = (
        Experiment.load(replace(train_config, seed=seed)).model.state_dict() for seed in (0, 0, 1)
    )
    key = "seq_blocks.0.weight"
    assert first[key].equal(again[key])
    assert not first[key].equal(other[key])


def test_weights_that_the_source_of_a_model_lacks_are_named(
    train_config: TrainConfig, caplog: pytest.LogCaptureFixture
) -> None:
    experiment = Experiment.load(train_config)
    info = replace(experiment.model_info, has_weights=True, random_weights=lambda: ("a", "b", "c", "d"))
    replace(experiment, model_info=info).warn_if_untrained()
    assert caplog.messages == ["model 'toy' has no trained weights for 'cls': a, b, c and 1 more are random"]


def test_a_checkpoint_of_another_model_is_reported_with_its_keys(train_config: TrainConfig, tmp_path: Path) -> None:
    torch.save({"state_dict": {"model.other.weight": torch.ones(2)}}, tmp_path / "a.ckpt")
    with pytest.raises(
        ValueError, match=r"does not fit this Toy; missing: seq_blocks.0.weight.* unexpected: other.weight"
    ):
        Experiment.load(replace(train_config, load_name=tmp_path / "a.ckpt"))


def test_a_corrupt_checkpoint_is_reported(train_config: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "a.ckpt").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint '.*a.ckpt' is corrupt"):
        Experiment.load(replace(train_config, load_name=tmp_path / "a.ckpt"))


def test_the_mode_of_the_model_is_unchanged(train_config: TrainConfig) -> None:
    experiment = Experiment.load(train_config)
    with limit_threads_for(experiment, 64):
        assert experiment.model.training
    assert not experiment.is_graph


@pytest.mark.parametrize(
    ("name", "hint"), [("seed", "did you mean 'data_seed'"), ("batch_size", "the command sets")]
)
def test_data_options_that_the_command_sets_are_refused(name: str, hint: str) -> None:
    config = TestConfig(model="toy", dataset="toy_tiny", data_options={name: 3})
    with pytest.raises(ValueError, match=f"data set 'toy_tiny' has no option '{name}'; {hint}"):
        Experiment.load(config)
