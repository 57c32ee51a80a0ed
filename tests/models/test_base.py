"""Registering, describing and building models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import DatasetInfo
from chop.models import MODELS, DataInfo, JSCToy, describe_model, get_model, get_model_info, register_model
from chop.registry import UnknownNameError

JETS = DatasetInfo("jets", num_features=16, num_classes=5)


class Net(nn.Module):
    """A net of a user.

    More about it.
    """

    def __init__(self, info: DataInfo) -> None:
        super().__init__()
        self.seq_blocks = nn.Sequential(nn.BatchNorm1d(16), nn.ReLU(16), nn.Linear(16, info.num_classes))  # type: ignore[arg-type]  # as users write it

    def forward(self, jets: Tensor, mask: Tensor | None = None) -> Tensor:
        scores: Tensor = self.seq_blocks(jets)
        return scores


def get_net(info: DataInfo) -> nn.Module:
    return Net(info)


def get_plain() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 5))


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove what a test registers."""
    monkeypatch.setattr(MODELS, "_entries", dict(MODELS._entries))


def get_test(info: DataInfo) -> nn.Module:
    return JSCToy(info)


@pytest.mark.usefixtures("registry")
def test_a_users_getter_registers_in_one_line() -> None:
    register_model("test-hhy")(get_test)
    assert get_model_info("test-hhy").inputs == ("x",)
    model = get_model("test-hhy", task="cls", dataset_info=JETS, pretrained=False)
    assert model(x=torch.randn(8, 16)).shape == (8, 5)


@pytest.mark.usefixtures("registry")
def test_a_getter_may_name_its_inputs() -> None:
    register_model("net", inputs=("jets",))(get_net)
    model = get_model("net", dataset_info=JETS)
    assert isinstance(model, Net)
    assert model(jets=torch.randn(8, 16)).shape == (8, 5)


@pytest.mark.usefixtures("registry")
def test_inputs_and_summary_are_read_from_a_class() -> None:
    register_model("net")(Net)
    info = get_model_info("net")
    assert (info.name, info.inputs, info.tasks) == ("net", ("jets",), ("cls",))
    assert info.summary == "A net of a user."


@pytest.mark.usefixtures("registry")
def test_a_getter_may_take_nothing() -> None:
    register_model("plain", inputs=("input",))(get_plain)
    assert isinstance(get_model("plain"), nn.Sequential)


@pytest.mark.usefixtures("registry")
def test_a_repeated_name_is_rejected() -> None:
    with pytest.raises(ValueError, match="model 'jsc-tiny' is already registered"):
        register_model("jsc-tiny")(Net)


def test_an_undocumented_class_has_no_summary() -> None:
    class Bare(Net):
        pass

    assert describe_model("bare", Bare).summary == ""


def test_wrong_input_names_are_reported_when_the_model_is_built() -> None:
    with pytest.raises(ValueError, match="the input 'x', but its forward takes jets, mask: pass inputs="):
        describe_model("net", get_net).build(JETS)


def test_a_forward_without_named_arguments_needs_inputs() -> None:
    class Anything(nn.Module):
        def forward(self, *xs: Tensor) -> Tensor:
            return xs[0]

    with pytest.raises(ValueError, match="forward of model 'any' has no named argument"):
        describe_model("any", Anything)


def test_a_getter_with_two_required_arguments_is_rejected() -> None:
    def get(info: DataInfo, width: int) -> nn.Module:
        return nn.Linear(info.num_features, width)

    with pytest.raises(ValueError, match=r"must take `info` .* it requires info, width"):
        describe_model("wide", get)


def test_an_unknown_model_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown model 'jsc-tinny'; did you mean 'jsc-tiny'\?"):
        get_model("jsc-tinny", dataset_info=JETS)


@pytest.mark.parametrize("task", ["cls", "classification"])
def test_both_names_of_the_task_are_accepted(task: str) -> None:
    assert get_model("jsc-tiny", task=task, dataset_info=JETS) is not None


def test_an_unknown_task_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown task 'detection'; known: classification, cls, lm, similarity"):
        get_model("jsc-tiny", task="detection", dataset_info=JETS)


def test_pretrained_weights_are_rejected() -> None:
    with pytest.raises(ValueError, match="no pretrained weights for model 'jsc-tiny'"):
        get_model("jsc-tiny", dataset_info=JETS, pretrained=True)


def test_missing_dataset_info_is_reported() -> None:
    with pytest.raises(ValueError, match="model 'jsc-tiny' needs dataset_info"):
        get_model("jsc-tiny")


@pytest.mark.parametrize(("name", "shape"), [("toy-convnet", (16,)), ("jsc-tiny", (1, 4, 4)), ("toy", (1, 4, 4))])
def test_samples_of_a_different_shape_are_rejected(name: str, shape: tuple[int, ...]) -> None:
    info = DatasetInfo("odd", num_features=16, num_classes=5, feature_shape=shape)
    with pytest.raises(ValueError, match=f"model '{name}' takes samples with . dimension"):
        get_model(name, dataset_info=info)


def test_a_file_without_a_class_is_reported_with_its_first_class(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import os\nclass Mine: pass\n")
    with pytest.raises(UnknownNameError, match=rf"'{file}' is a file, not a model: .*, as {file}:Mine$"):
        get_model_info(str(file))
    with pytest.raises(UnknownNameError, match=r"'no.py' is a file, not a model: .*, as no.py:Net$"):
        get_model_info("no.py")
    with pytest.raises(UnknownNameError, match=r"a network of your own is given as path/to/net\.py:Net"):
        get_model_info("zzz")


def test_a_folder_without_a_model_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"folder '.*' holds no model: it has no config.json"):
        get_model(str(tmp_path))
