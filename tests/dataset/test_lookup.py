"""Finding data sets by name, file or class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chop import models
from chop.dataset import JSC, MaseDataModule, dataset_from, get_dataset_info, resolve_dataset
from chop.dataset.readers import KINDS
from chop.registry import UnknownNameError

CODE = """
from __future__ import annotations

from dataclasses import dataclass

import torch

from chop.dataset import DatasetInfo, Rows, Splits


@dataclass
class Points:
    num_rows: int = 20
    info = DatasetInfo("points", num_features=2, num_classes=2)

    def load(self):
        rows = Rows(torch.randn(self.num_rows, 2), torch.arange(self.num_rows) % 2)
        return Splits(train=rows, val=rows, test=rows)


def make_points(seed: int, scale: float = 1.0):
    return Points(num_rows=10 + seed)


def needs_more(size):
    return Points(size)


def gives_nothing():
    return None


LIST = [1, 2]


class WrongShape(Points):
    def load(self):
        rows = Rows(torch.randn(20, 3), torch.arange(20) % 2)
        return Splits(train=rows, val=rows, test=rows)


class WrongLabels(Points):
    def load(self):
        rows = Rows(torch.randn(20, 2), torch.arange(20) % 3)
        return Splits(train=rows, val=rows, test=rows)


class WrongTypes(Points):
    def load(self):
        rows = Rows(torch.randn(20, 2), (torch.arange(20) % 2).float())
        return Splits(train=rows, val=rows, test=rows)
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "points.py").write_text(CODE)
    return str(tmp_path / "points.py")


def load(spec: str, **options: object) -> MaseDataModule:
    module = MaseDataModule(spec, 4, **options)  # type: ignore[arg-type]
    module.setup()
    return module


def test_a_registered_name_is_that_data_set() -> None:
    assert resolve_dataset("jsc") is JSC
    assert dataset_from("toy_tiny", {"num_rows": 50}).info.name == "toy_tiny"


@pytest.mark.parametrize("name", ["jcs", "JSC", "mnits"])
def test_an_unknown_name_suggests_the_nearest(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown data set '{name}'; "):
        resolve_dataset(name)
    with pytest.raises(UnknownNameError, match=r"^unknown data set 'jcs'; did you mean 'jsc'\?$"):
        MaseDataModule("jcs", 8)


def test_a_class_in_a_file_is_a_data_set(file: str) -> None:
    module = load(f"{file}:Points", num_rows=30)
    assert (module.dataset_info.name, len(module.splits.train.labels)) == ("points", 30)
    assert get_dataset_info(f"{file}:Points").num_features == 2


def test_a_function_in_a_module_is_a_data_set(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "points.py").rename(tmp_path / "points_of_a_user.py")
    monkeypatch.chdir(tmp_path)
    module = load("points_of_a_user:make_points", data_seed=7, scale=2.0)
    assert len(module.splits.train.labels) == 17


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Pionts", r"does not define 'Pionts'; did you mean 'Points'\?"),
        ("needs_more", "points.py:needs_more' needs the option 'size'"),
        ("gives_nothing", r"points.py:gives_nothing' is of type NoneType, without info and load\(\)"),
        ("LIST", r"points.py:LIST' is of type list; it must be a class with info and load\(\), or"),
        ("WrongShape", r"training split of data set 'points' has features of shape \[20, 3\], not \[20, 2\]"),
        (
            "WrongLabels",
            "training split of data set 'points' has labels from 0 to 2; there are 2 classes, from 0 to 1",
        ),
        ("WrongTypes", "has features of torch.float32 and labels of torch.float32"),
    ],
)
def test_errors_in_a_users_class_are_reported(file: str, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(f"{file}:{name}")


def test_an_unknown_option_of_a_users_class_is_rejected(file: str) -> None:
    with pytest.raises(ValueError, match=r"Points' has no option 'num_row'; did you mean 'num_rows'\?"):
        load(f"{file}:Points", num_row=3)


def test_models_know_the_suffixes_of_data_files() -> None:
    assert set(models.lookup.DATA) == {*KINDS, ".txt"}  # neither package imports the other


def test_a_path_to_a_data_file_is_a_data_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.random.default_rng(0).normal(size=(40, 3)), y=np.arange(40) % 2)
    assert load(str(tmp_path / "rows.npz")).dataset_info.name == "rows"
    with pytest.raises(ValueError, match=r"rows.npz' has no option 'path'"):
        load(str(tmp_path / "rows.npz"), path="elsewhere")
    with pytest.raises(ValueError, match=r"rows.npz' has no option 'lable'; did you mean 'label'\?"):
        load(str(tmp_path / "rows.npz"), lable="y")


@pytest.mark.parametrize("spec", ["nowhere.csv", "some/where.npz", "./folder/without/kind"])
def test_a_missing_file_is_reported(spec: str) -> None:
    with pytest.raises(ValueError, match=f"data file '{spec}' does not exist"):
        load(spec)


def test_a_file_of_unknown_format_is_reported(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1 2 3")
    with pytest.raises(ValueError, match=r"rows.txt' has an unknown format; supported: .npz, "):
        load(str(tmp_path / "rows.txt"))
