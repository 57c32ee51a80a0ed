"""Texts as token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from chop.dataset.splits import IGNORED

Tokenizer = Any
"""A tokenizer of transformers, which has no usable types."""


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], max_length: int) -> Tensor:
    """Return token ids and attention mask of each text, int64 [texts, 2, tokens]; texts are cut at `max_length`."""
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length, add_special_tokens=True)["input_ids"]
    longest = max(len(ids) for ids in encoded)
    padding = tokenizer.pad_token_id or 0
    rows = torch.full((len(encoded), 2, longest), padding)
    rows[:, 1] = 0
    for row, ids in zip(rows, encoded, strict=True):
        row[0, : len(ids)] = torch.tensor(ids)
        row[1, : len(ids)] = 1
    return rows


def token_arguments(rows: Tensor) -> dict[str, Tensor]:
    """Return rows of texts or windows as the arguments of models of transformers."""
    if rows.dim() == 2:
        return {"input_ids": rows}
    return {"input_ids": rows[:, 0], "attention_mask": rows[:, 1]}


def encode_document(tokenizer: Tokenizer, text: str) -> Tensor:
    """Return the token ids of one long text, int64 [tokens], without tokens at its start or end."""
    return torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=torch.int64)


def make_windows(ids: Tensor, window: int, stride: int, padding: int) -> tuple[Tensor, Tensor]:
    """Return windows [n, window] of a text, and for each token the next one as its label.

    Windows start every `stride` tokens; the label of their last token is the token after the window. Each token of
    the text but the first is a label once, in the first window that predicts it; the other labels, and those of the
    padding at the end of the last window, are `IGNORED`.
    """
    starts = [0]
    while starts[-1] + window < len(ids) - 1:
        starts.append(starts[-1] + stride)
    windows = torch.full((len(starts), window), padding, dtype=torch.int64)
    labels = torch.full((len(starts), window), IGNORED, dtype=torch.int64)
    scored = 1  # tokens before this one are labels already; the first one has no context
    for row, start in enumerate(starts):
        part, following = ids[start : start + window], ids[scored : start + window + 1]
        windows[row, : len(part)] = part
        labels[row, scored - start - 1 :][: len(following)] = following
        scored += len(following)
    return windows, labels
