"""Image classifiers of timm, with a stand-in for the package: its torchvision rarely fits a CPU build of torch."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from torch import nn

from chop.dataset import DatasetInfo
from chop.models import get_model, get_model_info

IMAGES = DatasetInfo("images", 192, 10, feature_shape=(3, 8, 8))


def fake_timm() -> Any:
    timm: Any = ModuleType("timm")
    timm.is_model = lambda name: name == "resnet18"
    timm.list_models = lambda: ["resnet18", "vit_tiny"]
    timm.get_pretrained_cfg = lambda name: SimpleNamespace(mean=(0.5,) * 3, std=(0.25,) * 3)

    def create_model(name: str, pretrained: bool, num_classes: int, in_chans: int) -> nn.Module:
        if pretrained:
            raise OSError("no connection")
        return nn.Sequential(nn.Flatten(), nn.Linear(in_chans * 64, num_classes))

    timm.create_model = create_model
    return timm


def test_a_model_is_built_for_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm())
    info = get_model_info("timm/resnet18")
    assert info.data_options == {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    assert not info.has_weights
    layer: Any = get_model("timm/resnet18", dataset_info=IMAGES).get_submodule("1")
    assert (layer.in_features, layer.out_features) == (192, 10)


def test_an_unknown_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm())
    with pytest.raises(ValueError, match=r"timm has no model 'resnet17'; did you mean 'resnet18'\?"):
        get_model_info("timm/resnet17")


def test_a_failed_download_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", fake_timm())
    with pytest.raises(ValueError, match="model 'timm/resnet18' cannot be loaded: no connection"):
        get_model("timm/resnet18", dataset_info=IMAGES, pretrained=True)


def test_a_torchvision_that_does_not_fit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ModuleType:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr("chop.display.extras.import_module", refuse)
    with pytest.raises(ValueError, match="torchvision does not fit this torch: operator torchvision::nms"):
        get_model_info("timm/resnet18")


def test_a_missing_timm_is_reported_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"model 'timm/resnet18' needs timm, which is not installed: "):
        get_model_info("timm/resnet18")


def test_a_missing_torchvision_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("import torchvision\n")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    reason = "needs timm, which cannot be imported because torchvision is not installed"
    with pytest.raises(ValueError, match=f"model 'timm/resnet18' {reason}"):
        get_model_info("timm/resnet18")
