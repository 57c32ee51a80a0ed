"""Options of `ch train` for low bit widths: distillation, batch norms, rounding and pruning over the epochs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TrainConfig, TransformConfig
from chop.formats.integer import Integer
from chop.nn.quantized import QuantizedLayer, quantize_layer
from chop.nn.quantized.rounding import rounding_share
from chop.passes.graph.transforms.gradual_pruning import GradualPruning
from chop.passes.graph.transforms.prune import PruneArgs
from chop.runs import Experiment, open_run
from chop.runs.weights import load_model
from chop.training.checkpoint import read_checkpoint
from chop.training.distillation import Distillation, find_teacher
from chop.training.loop import TrainingLoop
from chop.training.optimizer import make_optimizer, set_learning_rate

LEARNED = {"name": "integer", "data_in_width": 4, "data_in_scale": "learned", "weight_granularity": "channel"}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the quantised graph of an untrained jsc-tiny."""
    config = TransformConfig(
        model="jsc-tiny",
        dataset="toy_tiny",
        accelerator="cpu",
        project_dir=tmp_path_factory.mktemp("quantized"),
        passes={"quantize": {"by": "type", "linear": {"config": LEARNED}}},
    )
    return open_run(transform(config)).folder.path


@pytest.fixture
def config(train_config: TrainConfig, quantized: Path) -> TrainConfig:
    return replace(train_config, model="jsc-tiny", load_name=quantized, max_epochs=3)


def state_of(folder: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = read_checkpoint(folder / "software/training_ckpts/last.ckpt")["state_dict"]
    return state


def test_the_loss_of_distillation_is_that_of_hinton() -> None:
    logits = torch.tensor([[1.0, -0.5, 0.2], [0.1, 2.0, -1.0]], dtype=torch.float64)
    goal = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.0]], dtype=torch.float64)

    def softened(rows: Tensor) -> Any:
        powers = np.exp(rows.numpy() / 3.0)
        return powers / powers.sum(axis=1, keepdims=True)

    p, q = softened(goal), softened(logits)
    expected = 0.75 * 5.0 + 0.25 * 9.0 * (p * np.log(p / q)).sum()
    found = Distillation(nn.Identity(), 3.0, 0.25).loss(torch.tensor(5.0, dtype=torch.float64), logits, goal)
    assert found.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_a_quantised_graph_learns_from_its_float_version(config: TrainConfig) -> None:
    plain, distilled = (state_of(train(replace(config, distill=each))) for each in (False, True))
    assert not plain["model.seq_blocks.2.weight"].equal(distilled["model.seq_blocks.2.weight"])
    only_labels = state_of(train(replace(config, distill=True, distill_weight=0.0)))
    assert plain["model.seq_blocks.2.weight"].equal(only_labels["model.seq_blocks.2.weight"])


@pytest.mark.slow
def test_the_teacher_is_the_loaded_graph_even_if_the_model_has_published_weights(config: TrainConfig) -> None:
    experiment = Experiment.load(config)
    published = replace(experiment, model_info=replace(experiment.model_info, has_weights=True))
    found = find_teacher(replace(config, distill=True), published)
    assert found is not None
    loaded, teacher = experiment.model.state_dict(), found.teacher.state_dict()
    assert all(value.equal(loaded[key]) for key, value in teacher.items())
    assert not any(isinstance(layer, QuantizedLayer) for layer in found.teacher.modules())


@pytest.mark.slow
def test_the_teacher_may_be_another_run(train_config: TrainConfig) -> None:
    teacher = train(train_config)
    folder = train(replace(train_config, distill=True, teacher=teacher, max_epochs=1))
    saved = open_run(folder).config
    assert isinstance(saved, TrainConfig)
    assert saved.teacher == teacher.absolute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"distill": True, "load_name": None}, "'distill' needs a model to learn from: load a quantised graph"),
        ({"rounding_epochs": 1, "load_name": None}, "nothing in model 'jsc-tiny' is quantised; load one with"),
        ({"freeze_batch_norm": 0, "model": "toy", "load_name": None}, "model 'toy' has no batch norm"),
    ],
)
def test_options_that_have_nothing_to_work_on(config: TrainConfig, options: dict[str, Any], message: str) -> None:
    before = set(config.project_dir.iterdir()) if config.project_dir.exists() else set()
    with pytest.raises(ValueError, match=message):
        train(replace(config, **options))
    assert (set(config.project_dir.iterdir()) if config.project_dir.exists() else set()) == before


@pytest.mark.slow
def test_a_sparser_model_is_not_pruned_to_less(config: TrainConfig) -> None:
    pruned = train(replace(config, prune_sparsity=0.5, prune_epochs=1, max_epochs=1))
    before = set(config.project_dir.iterdir())
    with pytest.raises(ValueError, match=r"already has a sparsity of 0\.5"):
        train(replace(config, load_name=pruned, prune_sparsity=0.4))
    assert set(config.project_dir.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher": Path("run")}, "'teacher' has no effect without 'distill'"),
        ({"rounding_epochs": 2}, "'rounding_epochs' must be below 'max_epochs', which is 2, got 2"),
        ({"freeze_batch_norm": 5}, "'freeze_batch_norm' must be below 'max_epochs', which is 2, got 5"),
        ({"prune_epochs": 1}, "'prune_epochs' has no effect without 'prune_sparsity'"),
        ({"prune_sparsity": 1.0}, "'prune_sparsity' must be below 1, got 1.0"),
        ({"prune_sparsity": 0.5, "prune_epochs": 3}, "'prune_epochs' must be at most 'max_epochs', which is 2"),
        ({"distill_weight": 1.5}, "'distill_weight' must be at most 1, got 1.5"),
    ],
)
def test_options_that_contradict_each_other(
    train_config: TrainConfig, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replace(train_config, **options)


@pytest.mark.slow
def test_frozen_batch_norms_keep_their_statistics(config: TrainConfig, quantized: Path) -> None:
    key = "seq_blocks.0.running_mean"
    start = load_model(quantized).state_dict()[key]
    frozen = state_of(train(replace(config, freeze_batch_norm=0)))
    assert frozen[f"model.{key}"].equal(start)
    later = state_of(train(replace(config, freeze_batch_norm=1)))
    one_epoch = state_of(train(replace(config, max_epochs=1)))
    assert later[f"model.{key}"].equal(one_epoch[f"model.{key}"])
    assert not later[f"model.{key}"].equal(start)


def test_rounding_is_phased_in() -> None:
    x, weight = torch.tensor([[0.3]]), 0.7
    plain = nn.Linear(1, 1, bias=False)
    nn.init.constant_(plain.weight, weight)
    layer = quantize_layer(plain, {"data_in_0": Integer(4, 1), "weight": Integer(4, 1)}, "Integer")
    for mode in (True, False, False):
        layer.train(mode)
        for share, expected in ((0.0, 0.3 * 0.7), (0.5, 0.4 * 0.6), (1.0, 0.5 * 0.5)):
            with rounding_share(share):
                assert layer(x).item() == pytest.approx(expected)
                with torch.no_grad():
                    assert layer(x).item() == pytest.approx(expected)
        with torch.no_grad():  # in evaluation mode, the rounded weight is kept
            assert layer(x).item() == 0.25


def test_the_sparsity_grows_with_the_cube() -> None:
    pruning = GradualPruning(PruneArgs(sparsity=0.8), num_epochs=4, metas=(), initial=0.0)
    # 0.8 * (1 - (1 - t)**3) for t = 1/4, 2/4, 3/4, 1
    assert [pruning.sparsity(epoch) for epoch in range(6)] == pytest.approx([0.4625, 0.7, 0.7875, 0.8, 0.8, 0.8])


@pytest.mark.slow
def test_training_prunes_to_the_sparsity(train_config: TrainConfig) -> None:
    folder = train(replace(train_config, prune_sparsity=0.75, prune_epochs=2, max_epochs=3))
    model = load_model(folder)
    pruned = [layer for layer in model.modules() if isinstance(layer, QuantizedLayer)]
    assert pruned
    for layer in pruned:
        weight = layer.get_parameter("weight")
        assert (weight == 0).double().mean().item() == pytest.approx(0.75, abs=0.5 / weight.numel() + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [1, 2])
def test_all_options_together_resume_bit_for_bit(
    config: TrainConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, epochs: int
) -> None:
    options: dict[str, Any] = {"distill": True, "freeze_batch_norm": 2, "rounding_epochs": 2, "max_epochs": 4}
    config = replace(config, **options, prune_sparsity=0.5, prune_epochs=3, lr_scheduler="cosine")
    complete = state_of(train(replace(config, project_dir=tmp_path / "complete")))
    update = TrainingLoop.update

    def stop(self: TrainingLoop, group: Any, num_rows: int) -> Tensor:
        if self.step == epochs * self.steps_per_epoch + 3:
            raise KeyboardInterrupt
        return update(self, group, num_rows)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingLoop, "update", stop)
        with pytest.raises(KeyboardInterrupt):
            train(config)
    resumed = state_of(train(replace(config, resume=True)))
    assert list(resumed) == list(complete)
    assert all(resumed[key].equal(complete[key]) for key in complete)
    with pytest.raises(ValueError, match="its rounding_epochs is 2, not 1"):
        train(replace(config, resume=True, rounding_epochs=1))


def test_adam_changes_steps_by_a_share_of_them(train_config: TrainConfig) -> None:
    learned = Integer(4, scale="learned")
    layer = quantize_layer(nn.Linear(3, 2), {"weight": learned, "data_in_0": learned}, "Integer")
    layer.fix_scale("weight", 0.01)
    layer.fix_scale("data_in_0", 3.0)
    config = replace(train_config, learning_rate=0.1, weight_decay=0.5)
    optimizer = make_optimizer(config, layer)
    set_learning_rate(optimizer, config, 0, 10)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.1 / 128, 0.1 * 4])
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0, 0.0]
    sgd = make_optimizer(replace(config, training_optimizer="sgd"), layer)
    set_learning_rate(sgd, config, 0, 10)
    assert [group["lr"] for group in sgd.param_groups] == pytest.approx([0.1, 0.1])
