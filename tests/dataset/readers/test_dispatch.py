"""Reading files with tables and arrays."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.dataset.readers import KINDS, read_content
from dataset.data_samples import write_arff, write_hdf5

FRAME = pd.DataFrame({"a": [1.5, -2.0, 3.25], "b c": [1.0, 2.0, 3.0], "class": ["x", "y", "x"]})


def write(path: Path, frame: pd.DataFrame = FRAME) -> Path:
    """Write `frame` in the format given by the suffix."""
    if path.suffix in (".csv", ".tsv"):
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix in (".parquet", ".pq"):
        frame.to_parquet(path)
    elif path.suffix in (".h5", ".hdf5"):
        encoded = frame.assign(**{"class": frame["class"].to_numpy().astype("S8")})
        write_hdf5(path, {"group/rows": encoded.to_records(index=False, column_dtypes={"class": "S8"})})
    elif path.suffix == ".arff":
        write_arff(path, frame)
    else:
        np.savez(path, a=frame["a"], b=frame["b c"])
    return path


def read_frame(path: Path, **options: Any) -> pd.DataFrame:
    content = read_content(path, **options)
    assert isinstance(content, pd.DataFrame)
    return content


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ".npz"])
def test_every_table_format_is_read(tmp_path: Path, kind: str) -> None:
    content = read_frame(write(tmp_path / f"rows{kind}"))
    assert list(content.columns) == ["a", "b c", "class"]
    assert content["a"].tolist() == [1.5, -2.0, 3.25]
    assert [value.decode() if isinstance(value, bytes) else value for value in content["class"]] == ["x", "y", "x"]


def test_arrays_are_read_by_name(tmp_path: Path) -> None:
    content = read_content(write(tmp_path / "rows.npz"))
    assert isinstance(content, Mapping)
    assert {name: array.tolist() for name, array in content.items()} == {"a": [1.5, -2.0, 3.25], "b": [1, 2, 3]}


@pytest.mark.parametrize("kind", [".npz", ".parquet", ".h5", ".arff"])
def test_the_format_is_recognised_without_its_suffix(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"rows{kind}").rename(tmp_path / "rows.z")
    assert "a" in read_content(path)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (".csv", ".tsv", ".arff")])
def test_a_truncated_file_is_reported(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"rows{kind}")
    whole = path.read_bytes()
    for share in (0.0, 0.01, 0.3, 0.7, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ValueError, match=rf"rows\{kind}' is corrupt, or not a valid \.?\w+ file") as caught:
            read_content(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_a_different_format_is_reported(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows{kind}"
    path.write_bytes(b"\xff\xd8\xff\xe0 this is a photograph \x00\x01\x02" * 20)
    with pytest.raises(ValueError, match=rf"rows\{kind}' is corrupt, or not a valid \.?\w+ file"):
        read_content(path)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 10_000), value=st.integers(0, 255))
def test_a_corrupt_archive_is_read_or_a_value_error(position: int, value: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "rows.npz")
        content = bytearray(path.read_bytes())
        content[position % len(content)] = value
        path.write_bytes(content)
        with suppress(ValueError):
            read_content(path)


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    values=st.lists(numbers, min_size=1, max_size=20), kind=st.sampled_from([".csv", ".arff", ".parquet", ".h5"])
)
def test_numbers_are_read_exactly(values: list[float], kind: str) -> None:
    frame = pd.DataFrame({"a": values, "b c": 1.0, "class": "x"})
    with tempfile.TemporaryDirectory() as folder:
        content = read_frame(write(Path(folder) / f"rows{kind}", frame))
    assert np.array_equal(content["a"].to_numpy(np.float32), np.array(values, np.float32))


def test_a_row_with_too_many_values_is_rejected(tmp_path: Path) -> None:
    for name, content in (
        ("rows.csv", "a,b\n1,2,3\n4,5,6\n"),
        ("rows.arff", "@relation r\n@attribute a real\n@attribute b real\n@data\n1,2,3\n4,5,6\n"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(ValueError, match="its rows have more values than there are columns"):
            read_content(tmp_path / name)
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n4,5,6\n")
    with pytest.raises(
        ValueError, match=r"rows.csv' is corrupt, or not a valid CSV file: .* Expected 2 fields in line 3, saw 3"
    ):
        read_content(tmp_path / "rows.csv")


def test_arff_has_comments_quotes_and_missing_values(tmp_path: Path) -> None:
    path = tmp_path / "rows.arff"
    path.write_text(
        "% about\n@Relation 'a b'\n@ATTRIBUTE \"width of it\" NUMERIC\n@attribute 'kind' {g, 'q r'}\n\n@Data\n"
        "% more\n1e-3, g\n?, 'q r'\n"
    )
    content = read_frame(path)
    assert list(content.columns) == ["width of it", "kind"]
    assert content["width of it"].isna().tolist() == [False, True]
    assert content["kind"].tolist() == ["g", "q r"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("@relation r\n@attribute a real\n", "it has no line '@data'"),
        ("@relation r\nattribute a real\n@data\n1\n", "its header has the invalid line 'attribute a real'"),
    ],
)
def test_an_invalid_arff_file_is_reported(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "rows.arff"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_content(path)


def test_python_objects_are_rejected(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"not a valid \.npz file of plain arrays: Object arrays cannot be loaded"):
        dict(read_content(tmp_path / "rows.npz"))


def test_a_single_array_is_rejected_with_advice(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros(3))
    path = (tmp_path / "rows.npy").rename(tmp_path / "rows.npz")
    with pytest.raises(ValueError, match=r"save features and labels with np\.savez"):
        read_content(path)


def test_one_of_several_tables_can_be_chosen(tmp_path: Path) -> None:
    other: npt.NDArray[Any] = np.array([(7.0,)], dtype=[("z", "f8")])
    path = write_hdf5(tmp_path / "rows.h5", {"first": FRAME[["a", "b c"]], "second": other, "plain": np.zeros(3)})
    with pytest.raises(ValueError, match="has several tables: choose one with hdf5_table=; they are first, second"):
        read_content(path)
    with pytest.raises(ValueError, match=r"has no table 'secnod'; did you mean 'second'\?"):
        read_content(path, table="secnod")
    assert read_frame(path, table="second")["z"].tolist() == [7.0]
    assert list(read_frame(path, table="first", columns=["b c", "unknown"]).columns) == ["b c"]


def test_arrays_of_hdf5_are_read_by_name(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "rows.h5", {"x": np.ones((2, 3)), "y": np.array([0, 1])})
    content = read_content(path)
    assert isinstance(content, dict)
    assert content["x"].shape == (2, 3)


def test_a_column_of_arrays_is_rejected(tmp_path: Path) -> None:
    table: npt.NDArray[Any] = np.zeros(3, dtype=[("a", "f4"), ("wide", "f4", (2,))])
    with pytest.raises(ValueError, match="column 'wide' has more than one value per row"):
        read_content(write_hdf5(tmp_path / "rows.h5", {"rows": table}))


def test_unsupported_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data file '.*nowhere\.csv' does not exist"):
        read_content(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match="is a folder, not a data file"):
        read_content(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"has an unknown format; supported: .npz, .csv, .tsv, .parquet"):
        read_content(tmp_path / "notes.txt")
    with pytest.raises(ValueError, match="is not an HDF5 file: hdf5_table='rows'"):
        read_content(write(tmp_path / "rows.csv"), table="rows")


@pytest.mark.parametrize(("module", "kind"), [("pyarrow", ".parquet"), ("h5py", ".h5")])
def test_a_missing_package_is_reported_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, kind: str
) -> None:
    path = write(tmp_path / f"rows{kind}")
    monkeypatch.setitem(sys.modules, module, None)  # how Python notes that there is none
    monkeypatch.setenv("CHOP_LAUNCHER", "./ch")
    with pytest.raises(ValueError, match=rf"files needs {module}, which is not installed: ./ch setup data$"):
        read_content(path)
