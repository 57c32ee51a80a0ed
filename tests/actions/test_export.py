"""`ch export`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

import chop
from chop import cli
from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TrainConfig, TransformConfig
from chop.registry import UnknownNameError
from chop.reporting.run_report import write_report
from chop.runs.run import open_run
from samples import LAB_PASS_ARGS

pytestmark = pytest.mark.slow


@pytest.fixture
def quantized(train_config: TrainConfig) -> Path:
    """A run with a quantised model."""
    folder = train(train_config)
    config = TransformConfig(
        model=train_config.model,
        dataset=train_config.dataset,
        load_name=folder,
        project_dir=folder.parent,
        passes={"quantize": LAB_PASS_ARGS},
    )
    return transform(config).parents[1]


def export(folder: Path, *words: str) -> int:
    return cli.main(["export", str(folder), "--samples", "40", *words])


def test_an_exported_file_is_proven_listed_and_loaded(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(quantized, "--format", "safetensors") == 0
    file = quantized / "export" / "model.safetensors"
    out = capsys.readouterr().out
    assert "40 of 40 outputs equal (read back by chop 0.1.0)" in out
    assert out.splitlines()[-1] == f"saved in {file}"
    (listed,) = json.loads((quantized / "summary.json").read_text())["exports"]
    assert listed["file"] == str(file)
    assert listed["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    summary = json.loads((quantized / "summary.json").read_text())
    words = [summary["model"], summary["dataset"], "--load", str(file), "--project-dir", str(quantized.parent)]
    assert cli.main(["test", *words, "--name", "again"]) == 0
    again = json.loads((quantized.parent / "again" / "summary.json").read_text())
    assert again["test"]["loss"] == summary["test"]["after"]["loss"]


@pytest.mark.parametrize(("target", "file"), [("onnx", "model.onnx"), ("qonnx", "model.qonnx.onnx")])
def test_models_are_exported_for_onnxruntime_and_qonnx(
    target: str, file: str, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(quantized, "--format", target) == 0
    assert (quantized / "export" / file).is_file()
    engine = {"onnx": "onnxruntime", "qonnx": "qonnx"}[target]
    assert f"40 of 40 outputs equal ({engine} " in capsys.readouterr().out


@pytest.mark.parametrize("target", ["onnx", "qonnx"])
def test_an_exported_file_is_a_model_of_its_own(target: str, quantized: Path) -> None:
    assert export(quantized, "--format", target) == 0
    (exported,) = json.loads((quantized / "summary.json").read_text())["exports"]
    summary = json.loads((quantized / "summary.json").read_text())
    where = ["--project-dir", str(quantized.parent), "--name", "again"]
    assert cli.main(["test", exported["file"], summary["dataset"], *where]) == 0
    again = json.loads((quantized.parent / "again" / "summary.json").read_text())
    assert again["test"]["loss"] == pytest.approx(summary["test"]["after"]["loss"], rel=1e-6)
    passes = {"quantize": {"by": "type", "relu": {"config": {"name": "fp8"}}}}
    config = TransformConfig(
        model=exported["file"], dataset=summary["dataset"], project_dir=quantized.parent, passes=passes
    )
    changed = open_run(transform(config).parents[1]).graph
    formats = {meta.mase_op: meta.args["data_in_0"].format.name for meta in changed.metas() if meta.quantized}
    assert formats == {"linear": "integer", "relu": "fp8"}


def test_a_file_is_imported_as_a_run_with_its_formats(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(quantized) == 0
    summary = json.loads((quantized / "summary.json").read_text())
    words = ["transform", summary["exports"][0]["file"], summary["dataset"], "--project-dir", str(quantized.parent)]
    capsys.readouterr()
    assert cli.main([*words, "--name", "imported"]) == 0
    assert "data_in integer(8, 4), weight integer(8, 4)" in capsys.readouterr().out
    imported = open_run(quantized.parent / "imported")
    assert {meta.mase_op for meta in imported.graph.metas() if meta.quantized} == {"linear"}
    read = json.loads((quantized.parent / "imported" / "summary.json").read_text())
    assert read["test"]["after"]["loss"] == pytest.approx(summary["test"]["after"]["loss"], rel=1e-6)
    assert read["cost"]["before"] != read["cost"]["after"]


def test_the_report_lists_exported_files(quantized: Path) -> None:
    assert export(quantized, "--format", "safetensors") == 0
    document = write_report(open_run(quantized), num_samples=20, with_sensitivity=False)
    (listed,) = document["exports"]
    assert listed["sha256"] in (quantized / "report.html").read_text()


def test_python_exports_runs_and_graphs(quantized: Path, tmp_path: Path) -> None:
    run = chop.open_run(quantized)
    assert chop.export(run, format="safetensors", samples=30).proof.num_equal == 30
    path = tmp_path / "graph.safetensors"
    assert chop.export(run.graph, path, format="safetensors").path == path
    with pytest.raises(ValueError, match="a graph needs 'output'"):
        chop.export(run.graph)
    with pytest.raises(UnknownNameError, match="unknown export target 'tflite'; known: onnx, qonnx, safetensors"):
        chop.export(run.graph, path, format="tflite")


def test_a_second_export_replaces_the_first(quantized: Path) -> None:
    assert export(quantized, "--format", "safetensors") == 0
    assert export(quantized, "--format", "safetensors") == 0
    assert len(json.loads((quantized / "summary.json").read_text())["exports"]) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "tflite"], "unknown export target 'tflite'; known: onnx, qonnx, safetensors"),
        (
            ["--format", "onnx", "--opset", "13"],
            "opset 13 is too old: QuantizeLinear",
        ),
        (["--format", "safetensors", "--opset", "21"], "a safetensors file has no opset"),
        (
            ["--format", "safetensors", "--output", "model.onnx"],
            "files of the target 'safetensors' end in '.safetensors'",
        ),
        (["--output", "/proc/nothing/model.onnx"], "the folder '/proc/nothing' does not exist; create it, or"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(
    quantized: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(quantized.rglob("[!.]*"))
    assert export(quantized, *words) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert sorted(quantized.rglob("[!.]*")) == before


def test_a_folder_gets_the_file_and_a_name_its_suffix(quantized: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for output in (folder, folder / "jets"):
        assert export(quantized, "--format", "safetensors", "--output", str(output)) == 0
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "jets.safetensors"}


@pytest.mark.parametrize(
    ("target", "missing"),
    [("onnx", "onnx"), ("onnx", "onnxruntime"), ("qonnx", "qonnx"), ("qonnx", "qonnx.core.onnx_exec")],
)
def test_a_missing_package_is_one_sentence_and_leaves_no_file(
    quantized: Path,
    target: str,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(quantized.rglob("[!.]*"))
    monkeypatch.setitem(sys.modules, missing, None)
    assert export(quantized, "--format", target) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert missing.partition(".")[0] in error
    assert sorted(quantized.rglob("[!.]*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_an_error(
    quantized: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert export(quantized, "--output", str(locked / "model.safetensors")) == 2
    assert str(locked) in capsys.readouterr().err
