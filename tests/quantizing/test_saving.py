"""`chop.save` and `chop.load`."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import chop
from chop.files import CorruptFileError
from chop.passes.graph import save_mase_graph_interface_pass
from quantizing.models import Decides, SkipCNN, mlp, rows


def test_a_graph_loads_without_its_class_and_is_saved_again(tmp_path: Path) -> None:
    images = torch.randn(4, 1, 6, 6)
    quantized = chop.quantize(SkipCNN().eval(), "int8", images)
    chop.save(quantized, tmp_path / "saved")
    loaded = chop.load(tmp_path / "saved")
    assert loaded(images).equal(quantized(images))
    assert not loaded.training
    chop.save(loaded, tmp_path / "again")
    assert chop.load(str(tmp_path / "again"))(images).equal(quantized(images))


def test_a_model_without_a_graph_loads_into_one_of_its_class_which_stays_as_it_was(tmp_path: Path) -> None:
    x = rows(1, 4)[0][0]
    quantized = chop.quantize(Decides(), "int8", x, style="module")
    quantized.get_submodule("a").eval()
    chop.save(quantized, tmp_path)
    other = Decides()
    before = copy.deepcopy(other.state_dict())
    loaded = chop.load(tmp_path, into=other)
    assert loaded(x).equal(quantized(x))
    assert loaded(-x).equal(quantized(-x))
    assert [module.training for module in loaded.modules()] == [True, False, True]
    assert all(value.equal(before[name]) for name, value in other.state_dict().items())
    assert type(other.a) is nn.Linear
    assert chop.load(tmp_path, into=quantized)(x).equal(quantized(x))  # a quantised model takes the formats too
    message = "was saved without a graph, which only its own code can run: give a model of the same class"
    with pytest.raises(ValueError, match=message):
        chop.load(tmp_path)


def test_a_layer_that_is_shared_stays_shared(tmp_path: Path) -> None:
    model = Decides()
    model.b = model.a
    quantized = chop.quantize(model, "int8-dynamic", style="module")
    chop.save(quantized, tmp_path)
    loaded = chop.load(tmp_path, into=model)
    assert loaded.a is loaded.b


def test_a_saved_module_of_another_model_or_a_corrupt_one_is_an_error(tmp_path: Path) -> None:
    chop.save(chop.quantize(mlp(), "int4", style="module"), tmp_path)
    with pytest.raises(ValueError, match="it holds a different model: one of the two has no module '0'"):
        chop.load(tmp_path, into=Decides())
    wide = nn.Sequential(nn.Linear(6, 17), nn.ReLU(), nn.Linear(17, 4))
    with pytest.raises(ValueError, match=re.escape("'0.weight' is [16, 6] of torch.float32")):
        chop.load(tmp_path, into=wide)
    (tmp_path / "module.json").write_text('{"version": 2, "model": {}}')
    with pytest.raises(CorruptFileError, match="is corrupt"):
        chop.load(tmp_path, into=mlp())


def test_a_folder_that_is_written_twice_holds_the_last_model(tmp_path: Path) -> None:
    x = rows()[0][0]
    first = chop.quantize(mlp(), "int4", x)
    second = chop.quantize(mlp(), "int4")
    for model in (first, second, first):
        chop.save(model, tmp_path)
        assert chop.load(tmp_path, into=mlp())(x).equal(model(x))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".safetensors"]


@pytest.mark.slow
def test_folders_of_passes_and_of_runs_open_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = chop.train("toy", "toy_tiny", max_epochs=1)
    x = torch.randn(8, 4)
    with torch.no_grad():
        assert chop.load(run.folder.path)(x).equal(run.model(x))
        assert chop.load(run.name)(x).equal(run.model(x))
        save_mase_graph_interface_pass(run.graph, tmp_path / "graph")
        assert chop.load("graph").eval()(x).equal(run.model.eval()(x))
