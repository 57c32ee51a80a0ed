"""`ch emit` and `ch simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chop import cli
from chop.actions.train import train
from chop.actions.transform import transform
from chop.config import TrainConfig, TransformConfig
from chop.folder_lock import only_writer
from chop.hardware.simulators import SIMULATORS
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


def run(action: str, folder: Path, *words: str) -> int:
    return cli.main([action, str(folder), "--samples", "40", *words])


def test_emit_writes_a_circuit_and_prints_its_parts(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("emit", quantized, "--name", "jets") == 0
    out = capsys.readouterr().out
    assert "strategy" in out
    assert out.splitlines()[-1] == f"saved in {quantized / 'hardware' / 'manifest.json'}"
    manifest = json.loads((quantized / "hardware" / "manifest.json").read_text())
    total = next(line.split() for line in out.splitlines() if line.startswith("total"))
    assert total[-2:] == [str(manifest["latency"]), str(manifest["interval"])]
    assert (quantized / "hardware" / "rtl" / "jets.sv").is_file()
    assert (quantized / "hardware" / "tb" / "testbench.sv").is_file()


@pytest.mark.parametrize("words", [("emit",), ("export", "--format", "safetensors")])
def test_files_are_not_added_to_a_run_that_another_process_writes(
    quantized: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with only_writer(quantized):
        assert run(words[0], quantized, *words[1:]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("ch: error: process ")
    assert f" is writing to {quantized}: wait for it" in error
    assert not (quantized / "hardware").exists()
    assert not (quantized / "export").exists()


def test_strict_emission_refuses_a_node_that_would_be_completed(
    quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("emit", quantized, "--strict") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("ch: error: node 'seq_blocks_1' (relu) is in float")
    assert "[passes.quantize.relu.config]" in error
    assert not (quantized / "hardware").exists()


def test_emulation_compares_all_vectors_and_writes_nothing(
    quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("simulate", quantized, "--emulate") == 0
    assert "40 of 40 vectors equal in PyTorch and the integer program" in capsys.readouterr().out
    assert not (quantized / "hardware").exists()


@pytest.mark.skipif(not SIMULATORS["icarus"].is_available(), reason="Icarus Verilog is not installed")
def test_simulation_with_bubbles_stalls_and_a_reset(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("simulate", quantized, "--simulator", "icarus", "--strategy", "folded") == 0
    out = capsys.readouterr().out
    assert out.count("40 of 40 vectors equal in icarus") == 3


def test_the_report_shows_the_circuit(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("emit", quantized) == 0
    run_with_circuit = open_run(quantized)
    document = write_report(run_with_circuit, num_samples=20, with_sensitivity=False)
    manifest = json.loads((quantized / "hardware" / "manifest.json").read_text())
    circuit = document["hardware"]
    assert (circuit["latency"], circuit["lut"]) == (manifest["latency"], manifest["estimate"]["lut"])
    first, *others = circuit["units"]
    assert first["start"] == 0
    assert all(unit["start"] > 0 for unit in others)
    assert "makeHardware" in (quantized / "report.html").read_text()


def test_a_corrupt_manifest_is_reported_in_one_line(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (quantized / "hardware").mkdir()
    (quantized / "hardware" / "manifest.json").write_text('{"latency": []}')
    assert cli.main(["report", str(quantized), "--no-sensitivity"]) == 2
    assert "the manifest of the circuit is corrupt" in capsys.readouterr().err


def test_a_model_in_float_is_refused_in_one_line(
    train_config: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train(train_config)
    assert run("emit", folder) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("ch: error: node 'seq_blocks_0' (linear) is in float")
    assert "[passes.quantize.linear.config]" in error
    assert not (folder / "hardware").exists()
