"""Data sets from users' files."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from chop.dataset import FileDataset, MaseDataModule, get_dataset_info
from chop.display.launcher import command_line
from dataset.data_samples import openml_jets, write_arff, write_hdf5

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"width": RNG.normal(5, 2, 100), "height": RNG.normal(size=100), "kind": ["cat", "dog"] * 50})


def write_csv(folder: Path, frame: pd.DataFrame, name: str = "animals.csv") -> Path:
    frame.to_csv(folder / name, index=False)
    return folder / name


def test_a_table_is_a_data_set(tmp_path: Path) -> None:
    path = write_csv(tmp_path, FRAME)
    module = MaseDataModule(str(path), batch_size=8, label="kind")
    module.prepare_data()
    module.setup()
    info = module.dataset_info
    assert (info.name, info.num_features, info.num_classes, info.feature_shape) == ("animals", 2, 2, (2,))
    assert (info.class_names, info.feature_names) == (("cat", "dog"), ("width", "height"))
    assert info.title == "animals (file animals.csv, 100 rows)"
    assert info.version == "file"
    parts = module.splits.train, module.splits.val, module.splits.test
    assert [len(part.labels) for part in parts] == [72, 8, 20]
    torch.testing.assert_close(module.splits.train.features.mean(0), torch.zeros(2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["csv", "parquet", "arff", "h5"])
def test_every_file_format_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    frame = openml_jets(100)
    path = tmp_path / f"jets.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "arff":
        write_arff(path, frame)
    else:
        records = frame.to_records(index=False, column_dtypes={"class": "S1"})
        write_hdf5(path, {"jets": records})
    expected = FileDataset(write_csv(tmp_path, frame, "expected.csv")).load()
    found = FileDataset(path).load()
    torch.testing.assert_close(found.train.features, expected.train.features)
    assert found.train.labels.equal(expected.train.labels)
    assert get_dataset_info(str(path)).class_names == ("g", "q", "t", "w", "z")


def test_blanks_after_values_of_an_arff_file_are_not_part_of_them(tmp_path: Path) -> None:
    header = "@relation r\n@attribute width numeric\n@attribute y {a, b}\n@data\n"
    (tmp_path / "a.arff").write_text(header + "1 , a\n2,a \n3 ,b\t\n4 , b\n" * 4)
    assert FileDataset(tmp_path / "a.arff").info.class_names == ("a", "b")
    (tmp_path / "b.arff").write_text(header + "1 , a\n2,? \n3 ,b\t\n4 , b\n" * 4)
    with pytest.raises(ValueError, match=r"4 label\(s\) are missing, first in row 2"):
        FileDataset(tmp_path / "b.arff").load()


@pytest.mark.parametrize("kind", ["csv", "parquet", "arff", "h5", "npz"])
def test_labels_beyond_int64_are_refused_in_every_file_format(tmp_path: Path, kind: str) -> None:
    labels = np.array([2**63 + 1, 1] * 5, dtype=np.uint64)
    frame = pd.DataFrame({"width": np.arange(10.0), "y": labels})
    path = tmp_path / f"file.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path)
    elif kind == "arff":
        rows = frame.to_csv(index=False, header=False)
        path.write_text(f"@relation r\n@attribute width numeric\n@attribute y numeric\n@data\n{rows}")
    elif kind == "h5":
        write_hdf5(path, {"rows": frame.to_records(index=False)})
    else:
        np.savez(path, x=np.ones((10, 2)), y=labels)
    with pytest.raises(ValueError, match=r"labels must be smaller than 2\*\*63 here, got 9223372036854775809"):
        FileDataset(path).load()


def test_the_seed_determines_the_splits(tmp_path: Path) -> None:
    path = write_csv(tmp_path, FRAME)
    first, again, other = (FileDataset(path, seed=seed, label="kind").load() for seed in (1, 1, 2))
    assert first.sha256 == again.sha256 != other.sha256


def test_features_need_not_be_standardised(tmp_path: Path) -> None:
    splits = FileDataset(write_csv(tmp_path, FRAME), label="kind", standardise=False).load()
    assert splits.scaling is None
    assert sorted(splits.train.features[:, 0].tolist() + splits.val.features[:, 0].tolist()) == pytest.approx(
        sorted(set(FRAME["width"].astype(np.float32)) - set(splits.test.features[:, 0].numpy()))
    )


def test_columns_can_be_ignored(tmp_path: Path) -> None:
    path = write_csv(tmp_path, FRAME.assign(name="rex", number=range(100)))
    for ignore in ("name,number", ["name", "number"]):
        assert FileDataset(path, label="kind", ignore=ignore).info.feature_names == ("width", "height")
    with pytest.raises(
        ValueError, match=r"column 'name' is not numeric \('rex' in row 1\); leave it out with ignore="
    ):
        FileDataset(path, label="kind").load()
    with pytest.raises(ValueError, match=r"has no 'nmae' to ignore; did you mean 'name'\?"):
        FileDataset(path, label="kind", ignore="nmae").load()


def test_a_column_that_may_contain_the_label_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_csv(tmp_path, FRAME.assign(label=[0, 1] * 50))
    with caplog.at_level(logging.WARNING, logger="chop"):
        assert FileDataset(path, label="kind").info.num_features == 3
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith(
        "column 'label' is a feature; if it contains the label, leave it out with ignore='label'"
    )


@pytest.mark.parametrize(("x", "y"), [("x", "y"), ("X", "y"), ("features", "labels")])
@pytest.mark.parametrize("kind", [".npz", ".h5"])
def test_arrays_are_a_data_set(tmp_path: Path, kind: str, x: str, y: str) -> None:
    images = RNG.normal(size=(50, 3, 4, 4))
    content: dict[str, Any] = {x: images, y: np.arange(50) % 4 + 10}
    path = tmp_path / f"pictures{kind}"
    if kind == ".npz":
        np.savez(path, **content)
    else:
        write_hdf5(path, content)
    dataset = FileDataset(path)
    assert (dataset.info.feature_shape, dataset.info.num_features) == ((3, 4, 4), 48)
    assert dataset.info.class_names == ("10", "11", "12", "13")
    train = dataset.load().train.features
    assert train.shape == (36, 3, 4, 4)
    torch.testing.assert_close(train.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-6, rtol=0)


def test_arrays_are_chosen_by_the_name_of_the_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", data=RNG.normal(size=(20, 3)), kind=["a", "b"] * 10, extra=np.zeros(3))
    path = tmp_path / "rows.npz"
    assert FileDataset(path, label="kind", ignore="extra").info.class_names == ("a", "b")
    with pytest.raises(ValueError, match="besides 'kind' there must be one array of features, not 2"):
        FileDataset(path, label="kind").load()
    with pytest.raises(ValueError, match=r"has no array 'knid'; did you mean 'kind'\?"):
        FileDataset(path, label="knid").load()
    with pytest.raises(ValueError, match="no arrays x and y, nor features and labels; it has data, kind, extra"):
        FileDataset(path).load()
    with pytest.raises(ValueError, match=r"has no 'exrta' to ignore; did you mean 'extra'\?"):
        FileDataset(path, ignore="exrta").load()


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (
            np.zeros((20, 2)),
            np.arange(19) % 2,
            r"shapes \[rows, ...\] and \[rows\], got \[20, 2\] and \[19\]",
        ),
        (np.zeros(20), np.arange(20) % 2, r"got \[20\] and \[20\]"),
        (np.zeros((20, 2)), np.eye(20), r"got \[20, 2\] and \[20, 20\]"),
        (np.full((20, 2), "a"), np.arange(20) % 2, "'x' must hold numbers, not <U1"),
        (np.full((20, 2), np.nan), np.arange(20) % 2, r"column 'x\[0\]' has 20 missing or infinite values"),
        (np.zeros((5, 2)), np.arange(5) % 2, "has 5 rows, but 10 are required"),
    ],
)
def test_arrays_that_do_not_match_are_reported(tmp_path: Path, x: Any, y: Any, message: str) -> None:
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    with pytest.raises(ValueError, match=message):
        FileDataset(tmp_path / "rows.npz").load()


def test_a_table_without_features_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no columns besides the labels"):
        FileDataset(write_csv(tmp_path, FRAME[["kind"]]), label="kind").load()


def test_a_truncated_table_is_noticed(tmp_path: Path) -> None:
    path = write_csv(tmp_path, FRAME)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ValueError, match=r"animals.csv': 1 label\(s\) are missing, first in row 100"):
        FileDataset(path, label="kind").load()


def test_a_table_of_an_hdf5_file_can_be_chosen(tmp_path: Path) -> None:
    numbered = FRAME.assign(y=[0, 1] * 50).drop(columns="kind")
    path = write_hdf5(tmp_path / "rows.h5", {"first": numbered, "second": numbered.rename(columns={"width": "w"})})
    assert FileDataset(path, hdf5_table="second").info.feature_names == ("w", "height")


def write_images(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "images.npz", **arrays)
    return folder / "images.npz"


def byte_images(count: int, channels: int = 3) -> Any:
    return RNG.integers(0, 256, (count, channels, 4, 5), dtype=np.uint8)


@pytest.mark.parametrize("names", ["{split}_{array}", "{array}_{split}"])
def test_a_file_can_name_its_test_split(tmp_path: Path, names: str) -> None:
    train, test = byte_images(50), byte_images(7)
    labels = np.arange(57) % 3
    arrays = {("train", "x"): train, ("train", "y"): labels[:50], ("test", "x"): test, ("test", "y"): labels[50:]}
    path = write_images(tmp_path, **{names.format(split=s, array=a): v for (s, a), v in arrays.items()})
    splits = FileDataset(path, mean=(0.5, 0.25, 0), std=(0.5, 0.25, 1)).load()
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [45, 5, 7]
    assert splits.test.labels.tolist() == labels[50:].tolist()
    expected = (test / 255 - np.array([0.5, 0.25, 0]).reshape(3, 1, 1)) / np.array([0.5, 0.25, 1]).reshape(3, 1, 1)
    np.testing.assert_allclose(splits.test.features.numpy(), expected, atol=1e-6)


def test_floats_are_not_divided_by_255(tmp_path: Path) -> None:
    images = RNG.random((20, 1, 4, 4))
    path = write_images(tmp_path, x=images, y=np.arange(20) % 2)
    found = FileDataset(path, mean=[0.0], std=[2.0]).load()
    assert sorted(
        torch.cat([found.train.features, found.val.features, found.test.features]).flatten().tolist()
    ) == (pytest.approx(sorted((images / 2).flatten().tolist())))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mean": [0.5, 0.5, 0.5]}, "mean and std must be given together"),
        ({"mean": [0.5], "std": [0.5]}, "but the images have 3 channel(s): give one value for each"),
        ({"mean": [0.5] * 3, "std": [0.5, 0.5, 0.0]}, "std must be positive"),
    ],
)
def test_a_wrong_normalisation_is_reported(tmp_path: Path, options: dict[str, Any], reason: str) -> None:
    path = write_images(tmp_path, x=byte_images(20), y=np.arange(20) % 2)
    with pytest.raises(ValueError, match=re.escape(reason)):
        FileDataset(path, **options).load()


@pytest.mark.parametrize(
    ("test", "labels", "reason"),
    [
        (byte_images(7, channels=1), np.arange(7) % 2, "have different shapes"),
        (byte_images(0), np.arange(0), "has no rows"),
        (byte_images(7), np.arange(6) % 2, r"got \[7, 3, 4, 5\] and \[6\]"),
    ],
)
def test_a_test_split_that_does_not_fit_is_reported(tmp_path: Path, test: Any, labels: Any, reason: str) -> None:
    path = write_images(tmp_path, train_x=byte_images(20), train_y=np.arange(20) % 2, test_x=test, test_y=labels)
    with pytest.raises(ValueError, match=reason):
        FileDataset(path).load()


def test_all_columns_without_numbers_are_named_with_the_option_that_leaves_them_out(tmp_path: Path) -> None:
    path = write_csv(tmp_path, FRAME.assign(name="rex", town="Ulm", number=np.nan, weight=np.nan))
    expected = "column 'name' is not .*, column 'town' is not .*; leave them out with ignore='name,town'"
    with pytest.raises(ValueError, match=expected):
        FileDataset(path, label="kind").load()
    with command_line(), pytest.raises(ValueError, match="--data-option ignore=name,town"):
        FileDataset(path, label="kind").load()
    with pytest.raises(ValueError, match=r"column 'number' has 100 missing .*; column 'weight' has 100"):
        FileDataset(path, label="kind", ignore="name,town").load()


BYTES = RNG.integers(0, 256, size=(60, 3, 8, 6), dtype=np.uint8)


@pytest.mark.parametrize(
    ("normalize", "expected", "text"),
    [
        ("none", BYTES.astype(np.float32), "as in the file"),
        ("unit", BYTES.astype(np.float32) / 255, "bytes / 255"),
        ("standard", None, "bytes / 255, mean 0 and deviation 1 of each channel in the training split"),
    ],
)
def test_normalize_says_what_is_done_to_images(tmp_path: Path, normalize: Any, expected: Any, text: str) -> None:
    np.savez(
        tmp_path / "a.npz", x_train=BYTES[:40], y_train=np.arange(40) % 2, x_test=BYTES[40:], y_test=[0, 1] * 10
    )
    splits = FileDataset(tmp_path / "a.npz", normalize=normalize).load()
    assert (splits.values, splits.split) == (text, SPLIT)
    if expected is not None:
        assert splits.test.features.numpy() == pytest.approx(expected[40:])
    else:
        torch.testing.assert_close(splits.train.features.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)


SPLIT = "test rows as given, a tenth of the others for validation at random with seed 42"


def test_a_table_is_split_by_a_column_or_by_files(tmp_path: Path) -> None:
    part = np.array(["train"] * 60 + ["val"] * 10 + ["test"] * 30)
    whole = FileDataset(write_csv(tmp_path, FRAME.assign(part=part)), label="kind", split="part", normalize="none")
    for name in ("train", "val", "test"):
        write_csv(tmp_path, FRAME[part == name], f"{name}.csv")
    files = FileDataset(tmp_path / "train.csv", label="kind", val="val.csv", test="test.csv", normalize="none")
    for splits in (whole.load(), files.load()):
        for name in ("train", "val", "test"):
            rows, expected = getattr(splits, name), FRAME[part == name]
            assert rows.features.numpy() == pytest.approx(expected[["width", "height"]].to_numpy(np.float32))
            assert rows.labels.tolist() == (expected["kind"] == "dog").astype(int).tolist()
        assert splits.split == "as given"


def test_arrays_are_split_by_an_array_and_by_their_names(tmp_path: Path) -> None:
    part = np.array(["train"] * 40 + ["validation"] * 10 + ["test"] * 10)
    labels = np.arange(60) % 3
    np.savez(tmp_path / "one.npz", x=BYTES, y=labels, part=part)
    names = {"train": "train", "val": "validation", "test": "test"}
    arrays = {f"{key}_x": BYTES[part == name] for key, name in names.items()}
    np.savez(tmp_path / "six.npz", **arrays, **{f"{key}_y": labels[part == name] for key, name in names.items()})
    one, six = FileDataset(tmp_path / "one.npz", split="part").load(), FileDataset(tmp_path / "six.npz").load()
    assert one.sha256 == six.sha256
    assert (one.split, len(one.val.labels)) == ("as given", 10)


def test_arrays_that_are_not_used_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    np.savez(tmp_path / "a.npz", x=BYTES, y=np.arange(60) % 3, weights=np.ones(60))
    FileDataset(tmp_path / "a.npz").load()
    assert caplog.messages[0].endswith("arrays that are not used: weights")


def test_images_with_channels_last_are_transposed_or_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "first.npz", x=BYTES, y=np.arange(60) % 3)
    np.savez(tmp_path / "last.npz", x=BYTES.transpose(0, 2, 3, 1), y=np.arange(60) % 3)
    with pytest.raises(ValueError, match=r"\[60, 8, 6, 3\], which looks like .* x.transpose\(0, 3, 1, 2\)"):
        FileDataset(tmp_path / "last.npz").load()
    last = FileDataset(tmp_path / "last.npz", channels="last").load()
    assert last.sha256 == FileDataset(tmp_path / "first.npz").load().sha256
    assert FileDataset(tmp_path / "last.npz", channels="first").info.feature_shape == (8, 6, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": "unit"}, "normalize=unit is for images of bytes; use normalize=none"),
        ({"normalize": "none", "mean": [0.0], "std": [1.0]}, "mean and std have no effect with normalize=none"),
        ({"channels": "last"}, r"channels= is for images, but 'x' has the shape \[60, 3\]"),
        ({"val": "b.npz"}, "val= needs test="),
        ({"split": "y"}, "'0' is not a split; known: test, train, training, val, valid, validation"),
        ({"split": "part"}, "no row has the split 'test'"),
        ({"split": "prat"}, "has no 'prat' to split by; did you mean 'part'"),
        ({"test": "b.npz", "split": "part"}, "no row has the split 'test'"),
        ({"test": "b.npz"}, "b.npz' has other columns, or samples of another shape, than"),
    ],
)
def test_switches_that_do_not_fit_the_file_are_refused(tmp_path: Path, options: Any, message: str) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((60, 3)), y=np.arange(60) % 3, part=["train"] * 60)
    np.savez(tmp_path / "b.npz", x=np.ones((60, 4)), y=np.arange(60) % 3)
    with pytest.raises(ValueError, match=message):
        FileDataset(tmp_path / "a.npz", **options).load()
