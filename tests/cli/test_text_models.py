"""Text models on the command line: evaluated before and after a transform, and one sentence about bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from chop.cli import main
from chop.runs import open_run
from models.text_models import (
    save_classifier,
    save_encoder,
    save_language_model,
    write_reviews,
    write_text,
)

pytestmark = pytest.mark.slow

transformers = pytest.importorskip("transformers")

QUANTIZE = """
[transform]
style = "module"

[passes.quantize]
by = "type"
linear.config.name = "mxfp"
"""


def transform(folder: Path, model: Path, data: Path, *words: str) -> Any:
    (folder / "quantize.toml").write_text(QUANTIZE)
    config = ["--config", str(folder / "quantize.toml"), "--project-dir", str(folder / "runs")]
    main(["transform", str(model), str(data), *config, *words])
    return open_run(project_dir=folder / "runs").summary


def error_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run `ch` with wrong input and return its error message."""
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("ch: error: ")
    assert error.count("\n") == 1, error
    return error.removeprefix("ch: error: ").rstrip("\n")


def test_a_language_model_is_evaluated_before_and_after(tmp_path: Path) -> None:
    folder, text = save_language_model(tmp_path / "lm"), write_text(tmp_path)
    summary = transform(tmp_path, folder, text, "--data-option", "window=20", "--max-samples", "4")
    assert summary["task"] == "language-modelling"
    assert summary["data"]["provenance"] == "file story.txt, 200 tokens, window 20, stride 20"
    model = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    ids = transformers.AutoTokenizer.from_pretrained(folder)(text.read_text(), return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits = model(ids[0, :80].view(4, 20)).logits
    expected = F.cross_entropy(logits.flatten(0, 1), ids[0, 1:81]).item()
    before, after = summary["test"]["before"], summary["test"]["after"]
    assert before["loss"] == pytest.approx(expected, rel=1e-5)
    assert before["perplexity"] == pytest.approx(math.exp(expected), rel=1e-5)
    assert after["loss"] != before["loss"]
    assert after["loss"] == pytest.approx(expected, rel=0.05)


def write_sentences(folder: Path) -> Path:
    words = write_text(folder).read_text().split()
    path = folder / "sentences.tsv"
    path.write_text("text\n" + "\n".join(" ".join(words[i : i + 5]) for i in range(0, 150, 5)) + "\n")
    return path


def test_sentences_are_compared_with_the_original_model(tmp_path: Path) -> None:
    summary = transform(tmp_path, save_encoder(tmp_path / "encoder"), write_sentences(tmp_path))
    assert summary["task"] == "similarity"
    assert summary["test"]["before"]["rank_correlation"] == pytest.approx(1)
    assert 0.9 < summary["test"]["after"]["rank_correlation"] < 1


def test_a_loaded_encoder_is_tested_against_its_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        str(save_encoder(tmp_path / "encoder")),
        str(write_sentences(tmp_path)),
        "--project-dir",
        str(tmp_path),
    )
    (tmp_path / "graph.toml").write_text('[passes.quantize]\nby = "type"\nlinear.config.name = "nvfp4"\n')
    main(["transform", *words, "--config", str(tmp_path / "graph.toml"), "--name", "nvfp4"])
    expected = open_run("nvfp4", tmp_path).summary["test"]["after"]["rank_correlation"]
    assert expected < 0.99999
    main(["test", *words, "--load", str(tmp_path / "nvfp4"), "--name", "tested"])
    tested = open_run("tested", tmp_path)
    assert tested.summary["test"]["rank_correlation"] == pytest.approx(expected, abs=1e-7)
    assert "rank correlation" in tested._repr_html_()
    message = "the task 'similarity' compares a changed model with its original: load the run or the graph"
    assert error_of(capsys, "test", *words, "--name", "alone").startswith(message)
    assert not (tmp_path / "alone").exists()
    for action in ("search", "sweep"):
        message = f"{action}: the task 'similarity' is not supported by this command, only cls and lm; "
        assert error_of(capsys, action, *words).startswith(message)


def test_texts_are_classified(tmp_path: Path) -> None:
    summary = transform(tmp_path, save_classifier(tmp_path / "cls"), write_reviews(tmp_path))
    assert summary["task"] == "classification"
    assert set(summary["test"]["before"]) == {"accuracy", "loss"}


def test_a_text_classifier_is_trained(tmp_path: Path) -> None:
    folder, data = save_classifier(tmp_path / "cls"), write_reviews(tmp_path)
    options = ["--max-epochs", "20", "--batch-size", "8", "--learning-rate", "0.01", "--report-to", "none"]
    main(["train", str(folder), str(data), *options, "--project-dir", str(tmp_path / "runs")])
    assert open_run(project_dir=tmp_path / "runs").summary["test"]["accuracy"] == 1


def test_bad_input_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    model, text = str(save_language_model(tmp_path / "lm")), str(write_text(tmp_path))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 " * 1000)
    (tmp_path / "folder").mkdir()
    for words, reason in (
        ((model, "empty.txt"), "text file 'empty.txt' is empty"),
        ((model, "latin.txt"), "text file 'latin.txt' is not UTF-8: byte 3 is 0xe9"),
        ((model, "none.txt"), "text file 'none.txt' does not exist"),
        ((model, "jsc"), "data set 'jsc' has no text: a tokenizer cannot be used"),
        (
            ("hf/someone/model", text),
            "model 'hf/someone/model' is not on this machine: download",
        ),
        (("hf/folder", text), "folder 'folder' is not a model of save_pretrained: it has no config.json"),
        (("none.gguf", text), "GGUF file 'none.gguf' does not exist"),
        (("jsc-tiny", text), "model 'jsc-tiny' does not support the task 'lm'; its tasks: cls"),
    ):
        assert error_of(capsys, "test", *words).startswith(reason)
    assert error_of(capsys, "train", model, text).startswith(
        "train: the task 'lm' is not supported by this command, only cls; "
    )
    assert not (tmp_path / "mase_output").exists()


def test_a_tokenizer_that_does_not_fit_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, text = save_language_model(tmp_path / "lm"), write_text(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["more", "words"])
    tokenizer.save_pretrained(folder)
    text.write_text(text.read_text() + " more words")
    words = ("test", str(folder), str(text), "--data-option", "window=20", "--project-dir", str(tmp_path / "runs"))
    expected = "the tokenizer has the token 19, but the model only has 0 to 17"
    assert error_of(capsys, *words) == f"model '{folder}': {expected}: it is the tokenizer of another model"
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()
    assert error_of(capsys, *words).startswith(f"folder '{folder}' has no tokenizer (such as tokenizer.json)")


def test_texts_that_are_longer_than_the_model_takes_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, text = save_language_model(tmp_path / "lm"), write_text(tmp_path)
    words = ("test", str(folder), str(text), "--data-option", "window=65", "--project-dir", str(tmp_path / "runs"))
    reason = f"takes 64 tokens at most, but the rows of '{text}' have 65: use --data-option window=64"
    assert error_of(capsys, *words) == f"model '{folder}' {reason}"


def test_a_language_model_is_transformed_as_a_graph(tmp_path: Path) -> None:
    folder, text = save_language_model(tmp_path / "lm"), write_text(tmp_path)
    (tmp_path / "graph.toml").write_text('[passes.quantize]\nby = "type"\nlinear.config.name = "mxfp"\n')
    options = ["--data-option", "window=20", "--project-dir", str(tmp_path / "runs")]
    main(["transform", str(folder), str(text), "--config", str(tmp_path / "graph.toml"), *options])
    by_graph = open_run(project_dir=tmp_path / "runs").summary["test"]
    by_module = transform(tmp_path, folder, text, "--data-option", "window=20")["test"]
    for name in ("before", "after"):
        assert by_graph[name]["loss"] == pytest.approx(by_module[name]["loss"], rel=1e-5)
