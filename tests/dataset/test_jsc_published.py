"""The published files of jets."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from chop.dataset import JSC
from chop.dataset.jsc_published import CLASSES, FEATURES, check_jets, read_jets
from dataset.data_samples import cernbox_jets, openml_jets, write_arff, write_cernbox, write_hdf5

SHARED = Path(__file__).parents[3] / "shared" / "data" / "jsc"


def write_openml(path: Path, frame: pd.DataFrame) -> Path:
    if path.suffix == ".arff":
        return write_arff(path, frame)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize("name", ["jets.parquet", "jets.arff", "jets.csv"])
def test_files_of_openml_are_read(tmp_path: Path, name: str) -> None:
    frame = openml_jets()
    jets = read_jets(write_openml(tmp_path / name, frame))
    assert jets.version == "openml"
    torch.testing.assert_close(jets.features, torch.tensor(frame[list(FEATURES)].to_numpy()))
    assert [CLASSES[label] for label in jets.labels.tolist()] == frame["class"].tolist()


def test_files_of_cernbox_are_read(tmp_path: Path) -> None:
    jets = read_jets(write_cernbox(tmp_path / "jets.z", cernbox_jets()))
    expected = openml_jets()
    assert jets.version == "cernbox"
    assert jets.provenance == "cernbox version, 300 rows only"
    assert jets.features.numpy().tolist() == expected[list(FEATURES)].to_numpy().tolist()
    assert [CLASSES[label] for label in jets.labels.tolist()] == expected["class"].tolist()


def test_duplicates_of_cernbox_are_dropped(tmp_path: Path) -> None:
    frame = cernbox_jets()
    twice = pd.concat([frame, frame.iloc[:50], frame.iloc[100:120]], ignore_index=True)
    jets, alone = (
        read_jets(write_cernbox(tmp_path / name, table))
        for name, table in (("twice.h5", twice), ("once.h5", frame))
    )
    assert jets.features.equal(alone.features)


@pytest.mark.slow
def test_the_splits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    """The published splits, as used by LogicNets and MASE."""
    from sklearn.model_selection import train_test_split  # here, because it takes seconds
    from sklearn.preprocessing import StandardScaler

    frame = pd.concat([cernbox_jets(307), cernbox_jets(307).iloc[:20]], ignore_index=True)
    splits = JSC(path=write_cernbox(tmp_path / "jets.h5", frame)).load()
    frame = frame.drop_duplicates()
    features = frame[[f"j_{name}" for name in FEATURES]].to_numpy()
    labels = frame[[f"j_{name}" for name in CLASSES]].to_numpy().argmax(axis=1)
    x_train, x_test, y_train, y_test = train_test_split(features, labels, test_size=0.2, random_state=42)
    assert splits.test.labels.tolist() == y_test.tolist()
    assert sorted([*splits.train.labels.tolist(), *splits.val.labels.tolist()]) == sorted(y_train.tolist())
    assert splits.scaling is not None
    back = splits.test.features * splits.scaling.scale + splits.scaling.mean
    torch.testing.assert_close(back, torch.tensor(x_test), rtol=1e-4, atol=1e-4)
    # a tenth of the training rows is for validation, so that the scale is only nearly the published one
    scaler = StandardScaler().fit(x_train)
    np.testing.assert_allclose(splits.scaling.scale, scaler.scale_, rtol=0.2)


def test_only_the_validation_rows_depend_on_the_seed(tmp_path: Path) -> None:
    path = write_openml(tmp_path / "jets.parquet", openml_jets())
    first, second = (JSC(seed=seed, path=path).load() for seed in (1, 2))
    assert first.test.labels.equal(second.test.labels)
    assert not first.val.labels.equal(second.val.labels)
    assert [len(part.labels) for part in (first.train, first.val, first.test)] == [216, 24, 60]


def test_rows_without_a_class_are_left_out_of_their_split(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    frame = cernbox_jets()
    frame.loc[:9, [f"j_{kind}" for kind in CLASSES]] = 0
    path = write_cernbox(tmp_path / "jets.h5", frame)
    with caplog.at_level(logging.WARNING, logger="chop"):
        splits = JSC(path=path).load()
    assert caplog.messages == [f"data file '{path}': left out 10 rows without exactly one class"]
    parts = (splits.train, splits.val, splits.test)
    assert sum(len(part.labels) for part in parts) == 290
    assert all(part.labels.min() >= 0 for part in parts)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (cernbox_jets().drop(columns="j_mass_mmdt"), "it has no column 'j_mass_mmdt'"),
        (pd.DataFrame({"a": [1.0]}), r"neither version of the jets: it has no column 'j_zlogz' \(cernbox\), nor"),
    ],
)
def test_other_tables_of_hdf5_are_rejected(tmp_path: Path, frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_jets(write_cernbox(tmp_path / "jets.h5", frame))


def test_a_different_hdf5_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no table 't_allpar_new'; known: jets"):
        read_jets(write_hdf5(tmp_path / "jets.h5", {"jets": cernbox_jets()}))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            openml_jets().drop(columns="mass_mmdt"),
            "not the openml version of the jets: it has no column 'mass_mmdt'",
        ),
        (openml_jets().replace({"class": {"g": "h"}}), "the class of a jet is one of g, q, t, w, z, not 'h'"),
        (openml_jets().assign(zlogz=np.nan), "column 'zlogz' has 300 missing or infinite"),
        (openml_jets().assign(zlogz="low"), r"column 'zlogz' is not numeric \('low' in row 1\)"),
    ],
)
def test_other_tables_of_openml_are_rejected(tmp_path: Path, frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_jets(write_openml(tmp_path / "jets.parquet", frame))


def test_arrays_without_columns_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "jets.npz", x=np.zeros((3, 16)))
    with pytest.raises(ValueError, match="has arrays without column names; jets have zlogz, "):
        read_jets(tmp_path / "jets.npz")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_reported(tmp_path: Path, share: float) -> None:
    path = write_cernbox(tmp_path / "jets.z", cernbox_jets())
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"jets.z' (is corrupt, or not a valid HDF5 file|has an unknown format)"):
        read_jets(path)


def test_a_downloaded_file_has_all_rows(tmp_path: Path) -> None:
    path = write_openml(tmp_path / "jets.parquet", openml_jets())
    with pytest.raises(ValueError, match="it holds openml version, 300 rows only"):
        check_jets(path, "openml")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real jets (../shared/data) are not on this machine")
def test_real_jets_are_read() -> None:
    splits = JSC(path=SHARED / "jsc_openml_1000.parquet").load()
    assert [len(part.labels) for part in (splits.train, splits.val, splits.test)] == [720, 80, 200]
    assert splits.provenance == "openml version, 1,000 rows only"
