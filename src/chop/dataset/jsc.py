"""Jet substructure classification: 16 features of a jet, and the 5 kinds of particle that can cause it."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from chop.dataset.base import DatasetInfo, Published, Seeded, Splits, register_dataset
from chop.dataset.download import DownloadError
from chop.dataset.jsc_generator import generate_rows
from chop.dataset.jsc_published import CLASSES, FEATURES, FILES, fetch_any, find_cached, find_in, read_jets
from chop.dataset.splits import check_num_rows, shorten, split_as_published, split_rows, standardise
from chop.display.numbers import counted
from chop.registry import closest

logger = logging.getLogger(__name__)

GENERATED = "generated look-alike, not comparable with published results"
NUM_GENERATED = 50_000
VERSIONS = (*FILES, "generated")


@register_dataset("jsc")
@dataclass(frozen=True)
class JSC(Published, Seeded):
    """Jet substructure classification: the published rows if they are available, otherwise generated ones.

    The sources in order: `path` (a file of a published version, or a folder with one), the cache folder, CERNBox,
    OpenML, and finally a generator that imitates the statistics of real jets.
    """

    num_rows: int | None = None  # default: all published rows, or 50,000 generated ones
    version: str | None = None  # cernbox, openml or generated; an error if it is not available
    normalize: Literal["standard", "none"] = "standard"  # none: features as in the file

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "jsc", len(FEATURES), len(CLASSES), class_names=CLASSES, feature_names=FEATURES
    )

    def __post_init__(self) -> None:
        if self.num_rows is not None:
            check_num_rows("jsc", self.num_rows, least=10)
        if self.version not in (None, *VERSIONS):
            raise ValueError(f"data set 'jsc' has no version '{self.version}'; {closest(self.version, VERSIONS)}")
        if self.version == "generated" and self.path is not None:
            raise ValueError(f"data set 'jsc': version 'generated' cannot be read from '{os.fspath(self.path)}'")

    def prepare(self) -> None:
        """Download the published rows, if they are not on this machine and can be reached."""
        self._find_file()

    def load(self) -> Splits:
        """Return standardised rows; log a warning if they are not the published ones."""
        found = self._find_file()
        if isinstance(found, Path):
            splits = self._read(found)
        else:
            logger.warning("data: jsc (%s)%s", GENERATED, f"; {found}" if found else "")
            rows = generate_rows(self.num_rows or NUM_GENERATED, self.seed)
            splits = split_rows(*rows, self.seed, GENERATED, version="generated")
        return splits if self.normalize == "none" else standardise(splits)

    def _find_file(self) -> Path | str:
        """Return the file to read, or the reason why there is none."""
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
                    f"the {self.version} version of data set 'jsc' is not available: {error}"
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
            raise ValueError(
                f"data file '{path}' has {counted(len(jets.labels), 'row')}, but num_rows is {self.num_rows}"
            )
        return replace(shorten(splits, self.num_rows), provenance=f"{jets.provenance}, {self.num_rows:,} of them")
