"""A text for language models, from a user's file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from chop.dataset.base import DatasetInfo, Splits
from chop.dataset.readers.text import read_text
from chop.dataset.splits import split_in_order
from chop.dataset.tokens import Tokenizer, encode_document, make_windows
from chop.display.numbers import counted

MIN_WINDOWS = 3  # one per split


@dataclass(frozen=True)
class TextWindows:
    """A UTF-8 text file, in windows of tokens; each token but the first is predicted from those in its window.

    The last token of a window predicts the token after it, so that every token is predicted once. The first 80 % of
    the windows are the test split. `stride` smaller than `window` gives tokens more context.
    """

    path: str | os.PathLike[str]
    tokenizer: Tokenizer = None  # of the model
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
