"""Jet substructure classification: 16 features of a jet, 5 kinds of particle it may come from."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from chop.dataset.base import DatasetInfo, Splits, register_dataset
from chop.dataset.download import DownloadError
from chop.dataset.jsc_generator import generate_rows
from chop.dataset.jsc_published import CLASSES, FEATURES, FILES, fetch_any, find_cached, find_in, read_jets
from chop.dataset.splits import shorten, split_as_published, split_rows, standardise
from chop.registry import closest

logger = logging.getLogger(__name__)

GENERATED = "generated look-alike, not comparable with published results"
NUM_GENERATED = 50_000
VERSIONS = (*FILES, "generated")


@register_dataset("jsc")
@dataclass(frozen=True)
class JSC:
    """Jet substructure classification: the published rows if they can be had, else look-alikes.

    They are taken from `path` (a file of either published version, or a folder with one), else from the cache
    folder, else from CERNBox, else from OpenML, else generated from figures of real jets.
    """

    seed: int = 42  # of the validation rows; of look-alikes also of the test rows and all numbers
    num_rows: int | None = None  # of published rows all, of look-alikes 50,000, unless given
    path: str | os.PathLike[str] | None = None  # file of either published version, or folder with one
    version: str | None = None  # cernbox, openml or generated: only this one, or an error

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "jsc", len(FEATURES), len(CLASSES), class_names=CLASSES, feature_names=FEATURES
    )

    def __post_init__(self) -> None:
        if self.num_rows is not None and self.num_rows < 10:
            raise ValueError(f"data set 'jsc' needs num_rows of 10 or more, {self.num_rows} was given")
        if self.version not in (None, *VERSIONS):
            raise ValueError(f"data set 'jsc' has no version '{self.version}', {closest(self.version, VERSIONS)}")
        if self.version == "generated" and self.path is not None:
            raise ValueError(f"data set 'jsc': rows are generated, or read from '{os.fspath(self.path)}', not both")

    def prepare(self) -> None:
        """Fetch the published rows, where there are none on this machine yet and they can be reached."""
        self._find_file()

    def load(self) -> Splits:
        """Standardised rows; a warning says when they are not the published ones."""
        found = self._find_file()
        if isinstance(found, Path):
            return standardise(self._read(found))
        logger.warning("data: jsc (%s)%s", GENERATED, f"; {found}" if found else "")
        rows = generate_rows(self.num_rows or NUM_GENERATED, self.seed)
        return standardise(split_rows(*rows, self.seed, GENERATED, version="generated"))

    def _find_file(self) -> Path | str:
        """The file to read, or why there is none."""
        if self.version == "generated":
            return ""
        if self.path is not None:
            return self._named_file(Path(self.path).expanduser())
        cached = find_cached(self.version)
        if cached is not None:
            return cached
        try:
            return fetch_any(self.version)
        except DownloadError as error:
            if self.version is not None:
                raise DownloadError(
                    f"the {self.version} version of data set 'jsc' cannot be had: {error}"
                ) from error
            return str(error)

    def _named_file(self, path: Path) -> Path:
        if not path.exists():
            raise ValueError(f"data file '{path}' of data set 'jsc' does not exist")
        found = find_in(path, self.version) if path.is_dir() else path
        if found is None:
            names = ", ".join(name for names in FILES.values() for name in names)
            raise ValueError(f"the folder '{path}' has no file of data set 'jsc', such as {names}")
        return found

    def _read(self, path: Path) -> Splits:
        jets = read_jets(path)
        if self.version not in (None, jets.version):
            raise ValueError(f"data file '{path}' is the {jets.version} version of jsc, not {self.version}")
        splits = split_as_published(jets.features, jets.labels, self.seed, jets.provenance, jets.version)
        if self.num_rows is None:
            return splits
        if self.num_rows > len(jets.labels):
            raise ValueError(f"data file '{path}' has {len(jets.labels)} rows, num_rows={self.num_rows} was given")
        return replace(shorten(splits, self.num_rows), provenance=f"{jets.provenance}, {self.num_rows:,} of them")
