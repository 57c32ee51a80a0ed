"""Users' text files as data sets, and what is said about files that do not fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chop.dataset import MaseDataModule
from models.text_models import make_tokenizer, write_reviews, write_text

pytest.importorskip("transformers")


def open_data(path: Path, task: str, **options: Any) -> MaseDataModule:
    module = MaseDataModule(str(path), batch_size=2, tokenizer=make_tokenizer(), task=task, **options)
    module.setup()
    return module


def test_the_first_windows_of_a_text_are_the_test_split(tmp_path: Path) -> None:
    path = write_text(tmp_path, num_words=200)
    data = open_data(path, "lm", window=10)
    assert [len(part.labels) for part in (data.splits.train, data.splits.val, data.splits.test)] == [2, 2, 16]
    assert data.dataset_info.title == "story (file story.txt, 200 tokens, window 10, stride 10)"
    assert data.splits.test.features[0].tolist() == make_tokenizer()(path.read_text())["input_ids"][:10]


def test_max_samples_limits_the_test_split(tmp_path: Path) -> None:
    data = open_data(write_text(tmp_path), "lm", window=10, max_samples=3)
    assert [len(part.labels) for part in (data.splits.train, data.splits.test)] == [2, 3]


@pytest.mark.parametrize("name", ["reviews.tsv", "reviews.csv"])
def test_labels_are_the_classes_of_the_model(tmp_path: Path, name: str) -> None:
    path = write_reviews(tmp_path, name)
    path.write_text(path.read_text().replace("\t", ",") if name.endswith("csv") else path.read_text())
    data = open_data(path, "cls", suggested={"class_names": ("positive", "negative")})
    assert data.dataset_info.class_names == ("positive", "negative")
    features, labels = data.splits.test
    good = make_tokenizer().convert_tokens_to_ids("good")
    assert [good in row[0] for row in features.tolist()] == [label == 0 for label in labels.tolist()]
    assert open_data(path, "cls").dataset_info.class_names == ("negative", "positive")


def test_sentences_are_lines_or_a_column(tmp_path: Path) -> None:
    lines = ["the cat sat", "a dog ran"] * 10
    (tmp_path / "a.txt").write_text("\n".join(lines))
    (tmp_path / "b.tsv").write_text("sentence\n" + "\n".join(lines))
    first, second = (open_data(tmp_path / name, "similarity").splits for name in ("a.txt", "b.tsv"))
    assert len(first.test.features) == 16
    assert first.test.features.equal(second.test.features)


@pytest.mark.parametrize(
    ("name", "content", "task", "reason"),
    [
        ("a.txt", b"", "lm", "text file '{path}' is empty"),
        ("a.txt", b"caf\xe9", "lm", "text file '{path}' is not UTF-8: byte 3 is 0xe9"),
        ("a.txt", b"the cat", "lm", "has 2 tokens, but 3 windows of 256 are required"),
        ("a.txt", b"the cat\na dog", "similarity", "has 2 lines, but 10 are required"),
        ("a.tsv", b"text\tlabel\nthe cat\tx\n", "cls", "has 1 row, but 10 are required"),
        ("a.tsv", b"words\tlabel\n" + b"the cat\tx\n" * 20, "cls", "has no column called text, sentence"),
        ("a.tsv", b"text\tlabel\n" + b"the cat\tx\n" * 20, "cls", "all labels are 'x'"),
        ("a.tsv", b"text\tlabel\n" + b"\tx\n" * 20, "cls", "20 text(s) are missing, first in row 1"),
        ("a.tsv", b"text\tlabel\n" + b"caf\xe9\tx\n" * 20, "cls", "is corrupt, or not a valid TSV file"),
    ],
)
def test_files_that_do_not_fit_are_reported(
    tmp_path: Path, name: str, content: bytes, task: str, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(reason.format(path=path))):
        open_data(path, task)


@pytest.mark.parametrize(("window", "stride"), [(1, None), (8, 0), (8, 9)])
def test_windows_that_are_impossible_are_refused(tmp_path: Path, window: int, stride: int | None) -> None:
    with pytest.raises(ValueError, match="must be"):
        open_data(write_text(tmp_path), "lm", window=window, stride=stride)


def test_a_label_that_the_model_does_not_know_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the model has no class 'negative'; its classes: yes, no"):
        open_data(write_reviews(tmp_path), "cls", suggested={"class_names": ("yes", "no")})
