"""Small files in the formats of the data sets."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pandas as pd

from chop.dataset.jsc_generator import generate_rows
from chop.dataset.jsc_published import CERNBOX_TABLE, CLASSES, FEATURES

Bytes = npt.NDArray[np.uint8]


def idx_bytes(array: Bytes) -> bytes:
    """Return `array` in the idx format."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()


def cifar_bytes(pixels: Bytes, labels: Bytes) -> bytes:
    """Return records of CIFAR-10: a label, then red, green and blue planes."""
    return b"".join(bytes([label]) + image.tobytes() for image, label in zip(pixels, labels, strict=True))


def some_images(num_images: int, shape: tuple[int, ...], seed: int = 0) -> tuple[Bytes, Bytes]:
    """Return images whose brightness depends on the class, and their labels 0 to 9 in turn."""
    labels = (np.arange(num_images) % 10).astype(np.uint8)
    noise = np.random.default_rng(seed).integers(0, 20, (num_images, *shape), dtype=np.uint8)
    return noise + 20 * labels.reshape(-1, *(1 for _ in shape)), labels


def write_mnist(folder: Path, num_train: int = 200, num_test: int = 50, packed: bool = True) -> None:
    """Write the four files of MNIST, with few images."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", num_train), ("t10k", num_test)):
        images, labels = some_images(count, (28, 28))
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            content = idx_bytes(array)
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)


def cifar_files(num_images: int = 40) -> dict[str, bytes]:
    """Return the six files of CIFAR-10, with few images each."""
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    return {name: cifar_bytes(*some_images(num_images, (3, 32, 32), seed)) for seed, name in enumerate(names)}


def cifar_archive(files: dict[str, bytes]) -> bytes:
    """Return the files in a folder in a compressed archive, as they are published."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in {"readme.html": b"<html>", **files}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def openml_jets(num_rows: int = 300) -> pd.DataFrame:
    """Return a table like that of OpenML."""
    rows = generate_rows(num_rows, seed=0)
    frame = pd.DataFrame(rows.features.numpy(), columns=list(FEATURES))
    frame["class"] = [CLASSES[label] for label in rows.labels.tolist()]
    return frame.sample(frac=1, random_state=0, ignore_index=True)


def cernbox_jets(num_rows: int = 300) -> pd.DataFrame:
    """Return a table like that of CERNBox, without unused columns."""
    frame = openml_jets(num_rows)
    kinds = frame.pop("class")
    frame.columns = pd.Index([f"j_{name}" for name in frame.columns])
    for kind in ("g", "q", "w", "z", "t"):  # in the order of the real file
        frame[f"j_{kind}"] = (kinds == kind).astype(np.float32)
    return frame


def write_hdf5(path: Path, tables: dict[str, pd.DataFrame | npt.NDArray[Any]]) -> Path:
    """Write an HDF5 file with tables as arrays of records, and plain arrays."""
    with h5py.File(path, "w") as file:
        for name, content in tables.items():
            if isinstance(content, pd.DataFrame):
                content = content.to_records(index=False)
            file.create_dataset(name, data=content)
    return path


def write_cernbox(path: Path, frame: pd.DataFrame) -> Path:
    """Write a file like that of CERNBox, with an additional column and an additional table."""
    return write_hdf5(path, {CERNBOX_TABLE: frame.assign(j_undef=0.0), "particles": np.zeros((3, 4))})


def write_arff(path: Path, frame: pd.DataFrame) -> Path:
    """Write a file like that of OpenML: numbers are REAL, everything else is nominal."""
    lines = ["% Jets of the LHC", "", "@RELATION jets", ""]
    for name, column in frame.items():
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        kind = "REAL" if numeric else "{" + ",".join(sorted(column.unique())) + "}"
        lines.append(f"@ATTRIBUTE '{name}' {kind}" if numeric else f"@attribute {name} {kind}")
    rows = frame.to_csv(index=False, header=False).splitlines()
    path.write_text("\n".join([*lines, "", "@DATA", *rows]) + "\n", encoding="utf-8")
    return path


def write_downloads(cache: Path) -> None:
    """Write small versions of all files that data sets download, to the folders in which they are cached."""
    for name in ("mnist", "fashion_mnist"):
        write_mnist(cache / name, num_train=600, num_test=100)
    (cache / "cifar10").mkdir()
    for name, content in cifar_files(100).items():
        (cache / "cifar10" / name).write_bytes(content)
