"""Files of users: networks by path, plug-ins, and errors in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from chop import cli
from chop.cli import entry
from chop.dataset import DatasetInfo
from chop.formats import FORMATS
from chop.models import MODELS, get_model, get_model_info
from chop.passes import ANALYSIS_PASSES, PASSES
from chop.plugins import load_object, load_plugin

EXAMPLE = Path(__file__).parents[1] / "configs" / "examples" / "my_networks.py"
JETS = DatasetInfo("jets", num_features=16, num_classes=5)

NETWORKS = '''
from torch import nn

class Net(nn.Module):
    """A net of a user."""
    def __init__(self, info):
        super().__init__()
        self.layer = nn.Linear(info.num_features, info.num_classes)
    def forward(self, x):
        return self.layer(x)

class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 5)
    def forward(self, x):
        return self.layer(x)

class Wrong(Net):
    def forward(self, x):
        return self.layer(x, x)

def get_net(info):
    return Net(info)

def get_fixed():
    return nn.Sequential(nn.Linear(16, 5))

def get_number(info):
    return 3

WIDTH = 3
'''


@pytest.fixture(autouse=True)
def _restored_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what a test registers and loads."""
    for registry in (MODELS, FORMATS, PASSES, ANALYSIS_PASSES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr("chop.plugins._loaded", {})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a file of networks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NETWORKS)
    (tmp_path / "nets_of_mine").mkdir()
    (tmp_path / "nets_of_mine" / "net.py").write_text(NETWORKS)
    return tmp_path


@pytest.mark.parametrize("source", ["net.py", "./net.py", "nets_of_mine/net.py", "nets_of_mine.net"])
@pytest.mark.parametrize("name", ["Net", "Fixed", "get_net", "get_fixed"])
def test_network_is_found_by_file_or_module(folder: Path, source: str, name: str) -> None:
    model = get_model(f"{source}:{name}", dataset_info=JETS)
    assert sum(p.numel() for p in model.parameters()) == 85
    assert model(x=torch.ones(2, 16)).shape == (2, 5)


def test_file_is_imported_once(folder: Path) -> None:
    assert load_object("net.py:Net") is load_object(f"{folder}/net.py:Net")
    assert get_model_info("net.py:Net").summary == "A net of a user."


def test_two_files_with_the_same_name_are_two_modules(folder: Path) -> None:
    assert load_object("net.py:Net") is not load_object("nets_of_mine/net.py:Net")


def test_file_can_import_files_next_to_it(folder: Path) -> None:
    (folder / "widths_of_mine.py").write_text("WIDTH = 7\n")
    (folder / "a.py").write_text("from widths_of_mine import WIDTH\n")
    assert load_object("a.py:WIDTH") == 7


def test_models_of_a_plug_in_are_found_by_name() -> None:
    load_plugin(EXAMPLE)
    sizes = {
        name: sum(p.numel() for p in get_model(name, dataset_info=JETS).parameters())
        for name in ("test-hhy", "test")
    }
    assert sizes == {"test-hhy": 1_407, "test": 11_015}


def test_plug_in_can_be_loaded_again() -> None:
    assert load_plugin(EXAMPLE) is load_plugin(EXAMPLE)


@pytest.mark.slow
def test_plug_in_can_register_a_format_and_a_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    blocks = [block.split("```")[0] for block in guide.split("```python\n")[1:]]
    code = next(each for each in blocks if "register_format" in each)
    code += next(each for each in blocks if "register_pass" in each)
    (folder / "mine.py").write_text(code)
    assert cli.main(["info", "formats", "nibble", "--plugin", "mine.py"]) == 0
    assert "distance of two neighbours" in capsys.readouterr().out
    assert cli.main(["info", "passes", "count_zeros", "--plugin", "mine.py"]) == 0
    assert "tolerance" in capsys.readouterr().out


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removeprefix("ch: error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\nx = = 2\n", "{file}, line 2: SyntaxError: invalid syntax"),
        ("x = 1\n\nx = y\n", "{file}, line 3: NameError: name 'y' is not defined"),
        ("import no_such_module\n", "{file}, line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    return 1 / 0\n\nf()\n", "{file}, line 2: ZeroDivisionError: division by zero"),
        (
            "from chop.models import register_model\nregister_model('toy')(lambda: None)\n",
            "{file}, line 2: ValueError: model 'toy' is already registered, as ",
        ),
    ],
)
def test_error_in_a_plug_in_is_reported_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str, message: str
) -> None:
    (folder / "mine.py").write_text(code)
    words = ["transform", "toy", "toy_tiny", "--plugin", "mine.py", "--project-dir", "out"]
    assert error_of(capsys, *words).startswith(message.format(file=folder / "mine.py"))
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.py:Net", "Python file 'no.py' does not exist"),
        ("net.py:Ned", "'net.py' does not define 'Ned'; did you mean 'Net'?"),
        ("net.py:WIDTH", "'net.py:WIDTH' is of type int; it must be a torch.nn.Module class, or a function "),
        ("net.py:get_number", "model 'net.py:get_number' returned int, not an nn.Module"),
        ("no_such.module:Net", "'no_such.module': ImportError: module 'no_such.module' does not exist; "),
        (":Net", "'': "),
    ],
)
def test_missing_network_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert error_of(capsys, "transform", name, "toy_tiny", "--project-dir", "out").startswith(message)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("plugin", ["no.py", "net.txt"])
def test_plug_in_that_is_not_a_python_file_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], plugin: str
) -> None:
    (folder / "net.txt").write_text("")
    assert f"'{plugin}'" in error_of(capsys, "info", "models", "--plugin", plugin)


def test_error_inside_a_network_is_reported_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_action(settings: Any) -> Path:
        get_model("net.py:Wrong", dataset_info=JETS)(None)
        return folder

    monkeypatch.setattr(entry, "run_action", run_action)
    assert error_of(capsys, "train", "net.py:Wrong", "jsc").startswith(f"{folder / 'net.py'}, line 21: TypeError: ")


FEW_JETS = ("--data-option", "num_rows=100", "--data-option", "version=generated", "--no-warnings")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Net", "get_fixed"])
def test_network_in_a_file_can_be_transformed(folder: Path, name: str) -> None:
    config = "[passes.quantize]\nby = 'type'\n[passes.quantize.linear.config]\nname = 'integer'\n"
    (folder / "a.toml").write_text(config)
    assert cli.main(["transform", f"net.py:{name}", "jsc", "--config", "a.toml", *FEW_JETS]) == 0
    (table,) = folder.glob(f"mase_output/{name}_classification_jsc_*/software/transform/quantize_table.csv")
    assert "LinearInteger" in table.read_text()


@pytest.mark.slow
def test_network_of_a_plug_in_is_trained_from_toml_and_tested(folder: Path) -> None:
    (folder / "mine.py").write_text(EXAMPLE.read_text())
    (folder / "a.toml").write_text("plugins = ['mine.py']\nmodel = 'test-hhy'\ndataset = 'jsc'\nmax_epochs = 1\n")
    assert cli.main(["train", "--config", "a.toml", "--trust", "mine.py", *FEW_JETS]) == 0
    (run,) = folder.glob("mase_output/test-hhy_classification_jsc_*")
    checkpoint = str(run / "software" / "training_ckpts" / "best.ckpt")
    assert cli.main(["test", "--config", str(run / "run.toml"), "--load", checkpoint]) == 0
