"""Texts as tokens, and windows of a text."""

from __future__ import annotations

import pytest
import torch

from chop.dataset.tokens import encode_texts, make_windows
from models.text_models import make_tokenizer

pytest.importorskip("transformers")


def test_every_token_but_the_first_is_predicted_once() -> None:
    windows, labels = make_windows(torch.arange(10), window=4, stride=4, padding=99)
    assert windows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 99, 99]]
    assert labels.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, -100, -100, -100]]


def test_a_smaller_stride_predicts_every_token_once() -> None:
    windows, labels = make_windows(torch.arange(10), window=4, stride=2, padding=99)
    assert windows.tolist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]]
    assert labels.tolist() == [[1, 2, 3, 4], [-100, -100, 5, 6], [-100, -100, 7, 8], [-100, -100, 9, -100]]


def test_the_last_token_is_predicted_without_a_window_of_its_own() -> None:
    windows, labels = make_windows(torch.arange(9), window=4, stride=4, padding=99)
    assert windows.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert labels.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_texts_have_ids_and_a_mask_of_the_same_length() -> None:
    rows = encode_texts(make_tokenizer(), ["the cat sat", "a dog"], max_length=8)
    assert rows.tolist() == [[[2, 4, 6], [1, 1, 1]], [[3, 5, 0], [1, 1, 0]]]
    assert encode_texts(make_tokenizer(), ["the cat sat"], max_length=2).shape == (1, 2, 2)
