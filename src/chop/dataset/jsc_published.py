"""The two published versions of the jets: finding, downloading and reading them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from chop.cache import cache_folder, is_offline
from chop.dataset.columns import to_numbers
from chop.dataset.download import DownloadError, Remote, fetch, fetch_text, verify_recorded
from chop.dataset.readers import read_content
from chop.dataset.readers.errors import reading
from chop.display.extras import installed, missing_package
from chop.display.numbers import counted

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)

FEATURES = (
    *("zlogz", "c1_b0_mmdt", "c1_b1_mmdt", "c1_b2_mmdt", "c2_b1_mmdt", "c2_b2_mmdt"),
    *("d2_b1_mmdt", "d2_b2_mmdt", "d2_a1_b1_mmdt", "d2_a1_b2_mmdt", "m2_b1_mmdt", "m2_b2_mmdt"),
    *("n2_b1_mmdt", "n2_b2_mmdt", "mass_mmdt", "multiplicity"),
)
CLASSES = ("g", "q", "t", "w", "z")

CERNBOX_COLUMNS = tuple(f"j_{name}" for name in FEATURES + CLASSES)
CERNBOX_TABLE = "t_allpar_new"
CERNBOX_NAME = "processed-pythia82-lhc13-all-pt1-50k-r1_h022_e0175_t220_nonu_truth.z"
CERNBOX_URL = "https://cernbox.cern.ch/s/jvFd5MoWhGs1l5v/download"
OPENML_NAME = "hls4ml_lhc_jets_hlf"
OPENML_PARQUET = "https://data.openml.org/datasets/0004/42468/dataset_42468.pq"
OPENML_DESCRIPTION = "https://www.openml.org/api/v1/json/data/42468"

# File names of each version in a folder; downloads get the first one.
FILES = {
    "cernbox": (CERNBOX_NAME, "cernbox.h5"),
    "openml": (f"{OPENML_NAME}.parquet", f"{OPENML_NAME}.arff", "dataset_42468.pq", "dataset_42468.arff"),
}
NUM_ROWS = {"cernbox": 986_806, "openml": 830_000}  # approximately, without duplicates
MIN_SHARE = 0.95  # of these rows, in a complete file


class Jets(NamedTuple):
    """All rows of a file, in order and in physical units."""

    features: Tensor
    labels: Tensor  # -1 if the file gives no class, or several
    version: str

    @property
    def provenance(self) -> str:
        """The version and the number of rows, as text."""
        is_complete = MIN_SHARE * NUM_ROWS[self.version] <= len(self.labels)
        return f"{self.version} version, {counted(len(self.labels), 'row')}{'' if is_complete else ' only'}"


def find_in(folder: Path, version: str | None) -> Path | None:
    """Return the file of `version`, or of any version if that is None, in a folder."""
    for kind, names in FILES.items():
        for name in names:
            if version in (None, kind) and (folder / name).is_file():
                return folder / name
    return None


def find_cached(version: str | None) -> Path | None:
    """Return the file in the cache folder, after verifying its checksum."""
    path = find_in(cache_folder("jsc"), version)
    if path is not None:
        verify_recorded(path)
    return path


def fetch_any(version: str | None) -> Path:
    """Download the file from CERNBox or else OpenML; the error says why each failed."""
    if is_offline():
        raise DownloadError("downloads are disabled by CHOP_OFFLINE")
    reasons = []
    for kind, fetch_it in _SOURCES.items():
        if version in (None, kind):
            try:
                return fetch_it(cache_folder("jsc"))
            except DownloadError as error:
                reasons.append(f"{kind}: {error}")
    raise DownloadError("; ".join(reasons))


def _fetch_cernbox(folder: Path) -> Path:
    if not installed("h5py"):
        raise DownloadError(missing_package("h5py", "its HDF5 file"))
    # CERN publishes no checksum. A file is accepted if it has the length that the server announced, and the
    # expected columns and number of rows; its sha256 is recorded then.
    return fetch(Remote(CERNBOX_URL, CERNBOX_NAME, check=partial(check_jets, version="cernbox")), folder)


def _fetch_openml(folder: Path) -> Path:
    check = partial(check_jets, version="openml")
    if installed("pyarrow"):  # smaller and faster to read than the text, but without a published checksum
        return fetch(Remote(OPENML_PARQUET, f"{OPENML_NAME}.parquet", check=check), folder)
    try:
        description = json.loads(fetch_text(OPENML_DESCRIPTION))["data_set_description"]
        url, md5 = str(description["url"]), str(description["md5_checksum"]).lower()
    except (ValueError, KeyError, TypeError) as error:
        raise DownloadError(f"{OPENML_DESCRIPTION} does not contain the URL of the file") from error
    return fetch(Remote(url, f"{OPENML_NAME}.arff", md5, check), folder)


_SOURCES: dict[str, Callable[[Path], Path]] = {"cernbox": _fetch_cernbox, "openml": _fetch_openml}


def check_jets(path: Path, version: str) -> None:
    """Raise an error if `path` is not a complete file of `version`."""
    jets = read_jets(path)
    if jets.version != version or len(jets.labels) < MIN_SHARE * NUM_ROWS[version]:
        raise ValueError(f"it holds {jets.provenance}")


def read_jets(path: Path) -> Jets:
    """Return the jets in a file; its columns determine the version."""
    with reading(path, "file of jets"), path.open("rb") as file:
        is_hdf5 = file.read(4) == b"\x89HDF"
    table, columns = (CERNBOX_TABLE, CERNBOX_COLUMNS) if is_hdf5 else (None, ())
    frame = read_content(path, table, columns)
    where = f"data file '{path}'"
    if isinstance(frame, Mapping):
        raise ValueError(f"{where} has arrays without column names; jets have {', '.join(FEATURES)}")
    if "class" in frame and FEATURES[0] in frame:
        return _from_openml(frame, where)
    return _from_cernbox(frame, where)


def _from_cernbox(frame: DataFrame, where: str) -> Jets:
    missing = [name for name in CERNBOX_COLUMNS if name not in frame]
    if missing:
        raise ValueError(
            f"{where} is neither version of the jets: it has no column '{missing[0]}' (cernbox), "
            "nor 'class' and 'zlogz' (openml)"
        )
    numbers = to_numbers(frame[list(CERNBOX_COLUMNS)].drop_duplicates(), where)
    features, one_hot = numbers.split([len(FEATURES), len(CLASSES)], dim=1)
    unclear = (one_hot.eq(1).sum(dim=1) != 1) | (one_hot.ne(0).sum(dim=1) != 1)
    if unclear.any():
        logger.warning("%s: left out %s without exactly one class", where, counted(int(unclear.sum()), "row"))
    return Jets(features.contiguous(), one_hot.argmax(dim=1).masked_fill(unclear, -1), "cernbox")


def _from_openml(frame: DataFrame, where: str) -> Jets:
    missing = [name for name in FEATURES if name not in frame]
    if missing:
        raise ValueError(f"{where} is not the openml version of the jets: it has no column '{missing[0]}'")
    kinds = frame["class"].astype(str).str.strip("'\" ")
    unknown = kinds[~kinds.isin(CLASSES)]
    if len(unknown):
        raise ValueError(f"{where}: the class of a jet is one of {', '.join(CLASSES)}, not '{unknown.iloc[0]}'")
    numbers = {name: number for number, name in enumerate(CLASSES)}
    labels = torch.from_numpy(kinds.map(numbers).to_numpy(dtype="int64", copy=True))
    return Jets(to_numbers(frame[list(FEATURES)], where), labels, "openml")
