"""Texts with labels, sentences without, and a text for language models, from a user's file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from chop.dataset.base import DatasetInfo, Seeded, Splits
from chop.dataset.columns import pick_label, to_classes
from chop.dataset.readers import read_content
from chop.dataset.splits import split_in_order, split_rows
from chop.dataset.tokens import Tokenizer, encode_document, encode_texts, make_windows
from chop.display.launcher import data_option
from chop.display.numbers import counted
from chop.files import check_regular

if TYPE_CHECKING:
    from pandas import DataFrame


def read_text(path: Path) -> str:
    """Return the text in a file, which must not be empty."""
    if not path.exists():
        raise ValueError(f"text file '{path}' does not exist")
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text file '{path}' is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error
    except OSError as error:
        raise ValueError(f"text file '{path}' cannot be read: {error.strerror}") from error
    if not text.strip():
        raise ValueError(f"text file '{path}' is empty")
    return text


TEXTS = ("text", "sentence", "review", "content")  # default names of the column with the texts
MIN_ROWS = 10  # so that no split is empty


@dataclass(frozen=True)
class TextFile:
    """The options of all files with text."""

    path: str | os.PathLike[str]
    tokenizer: Tokenizer = None  # of the model


@dataclass(frozen=True)
class TextTable(TextFile, Seeded):
    """A table with a column of texts and one of labels (.tsv, .csv, .parquet); 20 % of the rows are the test split.

    If the model was trained for certain classes, labels are their names or numbers.
    """

    text: str | None = None  # name of the column with the texts
    label: str | None = None  # name of the label column
    max_length: int = 128  # tokens per text; longer texts are cut
    class_names: Sequence[str] = ()  # in the order of the model's scores

    @property
    def info(self) -> DatasetInfo:
        """The description, for which the file is read."""
        features, _, classes = self._samples
        shape = tuple(features.shape[1:])
        return DatasetInfo(Path(self.path).stem, features[0].numel(), len(classes), shape, classes, kind="tokens")

    def load(self) -> Splits:
        """Return the texts as token ids in three splits."""
        features, labels, _ = self._samples
        provenance = f"file {Path(self.path).name}, {counted(len(features), 'text')}"
        return split_rows(features, labels, self.seed, provenance, version="file")

    @cached_property
    def _samples(self) -> tuple[Tensor, Tensor, tuple[str, ...]]:
        frame = _read_table(Path(self.path))
        where = f"data file '{self.path}'"
        texts = _texts(frame, self.text, where)
        label = pick_label(list(frame.columns), self.label, where)
        if self.class_names:
            classes = tuple(self.class_names)
            labels = _known_classes([str(value) for value in frame[label]], classes, where)
        else:
            labels, classes = to_classes(frame[label], where)
        return encode_texts(self.tokenizer, texts, self.max_length), labels, classes


@dataclass(frozen=True)
class Sentences(TextFile):
    """Sentences without labels: a line each (.txt), or a column of a table; the first 80 % are the test split."""

    text: str | None = None  # name of the column with the sentences
    max_length: int = 128  # tokens per sentence; longer ones are cut

    @property
    def info(self) -> DatasetInfo:
        """The description, for which the file is read."""
        shape = tuple(self._features.shape[1:])
        return DatasetInfo(Path(self.path).stem, self._features[0].numel(), 1, shape, kind="tokens")

    def load(self) -> Splits:
        """Return the sentences as token ids, in their order; all labels are 0."""
        labels = torch.zeros(len(self._features), dtype=torch.int64)
        provenance = f"file {Path(self.path).name}, {counted(len(labels), 'sentence')}"
        return split_in_order(self._features, labels, provenance, version="file")

    @cached_property
    def _features(self) -> Tensor:
        path = Path(self.path).expanduser()
        if path.suffix == ".txt":
            texts = [line for line in read_text(path).splitlines() if line.strip()]
            if len(texts) < MIN_ROWS:
                raise ValueError(
                    f"text file '{path}' has {counted(len(texts), 'line')}, but {MIN_ROWS} are required"
                )
        else:
            texts = _texts(_read_table(path), self.text, f"data file '{path}'")
        return encode_texts(self.tokenizer, texts, self.max_length)


def _read_table(path: Path) -> DataFrame:
    content = read_content(path.expanduser())
    if isinstance(content, Mapping):
        raise ValueError(f"data file '{path}' holds arrays, but a table with a column of texts is required")
    frame = content.rename(columns=str)
    if len(frame) < MIN_ROWS:
        raise ValueError(f"data file '{path}' has {counted(len(frame), 'row')}, but {MIN_ROWS} are required")
    return frame


def _texts(frame: DataFrame, column: str | None, where: str) -> list[str]:
    name = column or next((name for name in TEXTS if name in frame), None)
    if name is None or name not in frame:
        given = f"no column '{column}'" if column else f"no column called {', '.join(TEXTS)}"
        columns = ", ".join(map(str, frame))
        raise ValueError(
            f"{where} has {given}: name the column of the texts with {data_option('text=')}; its columns: {columns}"
        )
    missing = frame[name].isna()
    if missing.any():
        raise ValueError(f"{where}: {int(missing.sum())} text(s) are missing, first in row {missing.argmax() + 1}")
    return [str(value) for value in frame[name]]


def _known_classes(labels: list[str], classes: tuple[str, ...], where: str) -> Tensor:
    """Return the number of each label, which is one of `classes` or its number."""
    numbers = {name: index for index, name in enumerate(classes)}
    numbers = {str(index): index for index in range(len(classes))} | numbers
    for label in labels:
        if label not in numbers:
            raise ValueError(f"{where}: the model has no class '{label}'; its classes: {', '.join(classes)}")
    return torch.tensor([numbers[label] for label in labels])


MIN_WINDOWS = 3  # one per split


@dataclass(frozen=True)
class TextWindows(TextFile):
    """A UTF-8 text file, in windows of tokens; each token but the first is predicted from those in its window.

    The last token of a window predicts the token after it, so that every token is predicted once. The first 80 % of
    the windows are the test split. `stride` smaller than `window` gives tokens more context.
    """

    window: int = 256  # tokens per window
    stride: int | None = None  # tokens from the start of a window to the next; None: `window`

    def __post_init__(self) -> None:
        if self.window < 2:
            raise ValueError(f"window must be at least 2 tokens, got {self.window}")
        if self.stride is not None and not 1 <= self.stride <= self.window:
            raise ValueError(f"stride must be from 1 to the window of {self.window} tokens, got {self.stride}")

    @property
    def info(self) -> DatasetInfo:
        return DatasetInfo(Path(self.path).stem, self.window, len(self.tokenizer), kind="tokens")

    def load(self) -> Splits:
        """Return the windows, in the order of the text."""
        stride = self.stride or self.window
        windows, labels = make_windows(self._ids, self.window, stride, self.tokenizer.pad_token_id or 0)
        if len(windows) < MIN_WINDOWS:
            raise ValueError(
                f"text file '{self.path}' has {counted(len(self._ids), 'token')}, but {MIN_WINDOWS} windows of "
                f"{self.window} are required: use a longer text or a smaller window"
            )
        size = counted(len(self._ids), "token")
        provenance = f"file {Path(self.path).name}, {size}, window {self.window}, stride {stride}"
        return split_in_order(windows, labels, provenance, version="file")

    @cached_property
    def _ids(self) -> Tensor:
        return encode_document(self.tokenizer, read_text(Path(self.path).expanduser()))
