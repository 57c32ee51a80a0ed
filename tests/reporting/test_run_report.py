"""`ch report`: the page of a run, and the printed summary."""

from __future__ import annotations

import errno
import json
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from chop.actions.train import train
from chop.actions.transform import transform
from chop.cli import main
from chop.config import ReportConfig, TrainConfig, TransformConfig
from chop.display.progress import Stage
from chop.ir import MaseGraph
from chop.page.render import embedded
from chop.passes.graph import compare_graphs_analysis_pass
from chop.reporting import run_report as module
from chop.reporting.run_report import BatchesWithProgress, print_summary, report, write_report
from chop.runs import open_run

pytestmark = pytest.mark.slow

FORMATS = {
    "by": "type",
    "linear": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 4}},
}


@pytest.fixture
def trained(train_config: TrainConfig) -> Path:
    return train(train_config)


@pytest.fixture
def quantized(trained: Path, train_config: TrainConfig) -> Path:
    """The run of a transform that loaded the best weights of a training."""
    config = TransformConfig(
        model="toy",
        dataset="toy_tiny",
        batch_size=64,
        accelerator="cpu",
        project_dir=train_config.project_dir,
        load_name=trained / "software" / "training_ckpts" / "best.ckpt",
        passes={"quantize": FORMATS},
    )
    return transform(config).parents[1]


def document_of(page: Path) -> dict[str, Any]:
    text = (
        page.read_text()
        .split('<script type="application/json" id="document" data-encoding="none">')[1]
        .split("</script>")[0]
    )
    found: dict[str, Any] = json.loads(text)
    return found


def test_report_of_a_training_has_its_curves_and_no_comparison(trained: Path) -> None:
    page = report(ReportConfig(run=trained))
    assert page == trained / "report.html"
    document = document_of(page)
    assert document["title"] == "toy"
    assert document["subtitle"] == f"toy_tiny (synthetic) · {trained.name} · {len(document['nodes'])} nodes"
    assert [curves["title"] for curves in document["curves"]] == ["Loss", "Accuracy", "Learning rate"]
    assert all(node["before"] is None and node["error"] is None for node in document["nodes"])
    accuracy = json.loads((trained / "summary.json").read_text())["test"]["accuracy"]
    assert document["figures"][0]["value"] == accuracy
    formats = "8-bit integers, scaled to the largest magnitude"
    expected = f"Sensitivity was measured with {formats}, on 200 rows."  # the test split has no more rows
    assert document["notes"]["sensitivity"] == expected


def test_report_of_a_transform_compares_and_has_the_curves_of_its_training(
    quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    document = document_of(report(ReportConfig(run=quantized, samples=100)))
    layers = [node for node in document["nodes"] if node["op"] == "linear"]
    assert layers
    for node in layers:
        assert (node["bits_per_weight"], node["before"]["bits_per_weight"]) == (4, 32)
        assert node["error"]["sqnr_db"] > 0
        assert node["sensitivity"]["alone"]["loss_change"] is not None
        assert node["sensitivity"]["all_but"]["output_sqnr_db"] is not None
    assert document["curves"][0]["title"] == "Loss"
    assert document["notes"]["values"] == "Activations were measured on 100 rows."
    assert document["notes"]["sensitivity"] == "Sensitivity was measured with the formats of the run, on 100 rows."
    test = json.loads((quantized / "summary.json").read_text())["test"]
    accuracy = document["figures"][0]
    assert (accuracy["value"], accuracy["before"]) == (test["after"]["accuracy"], test["before"]["accuracy"])
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith(layers[0]["name"]))
    assert row.split()[1:4] == ["linear", "4", "8"]
    assert f"{layers[0]['cost']['macs']:,}" in row
    assert "Average weight bits: " in printed
    assert document["notes"]["cost"].startswith("Costs are for one sample, with inputs of shape [1, ")
    assert document["notes"]["cost"] in printed


def test_the_terminal_has_the_units_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    energy = {"name": "energy_pj", "title": "Energy", "value": 224250.4, "before": 12.5, "kind": "energy"}
    memory = {"name": "weight_bits", "title": "Weight memory", "value": 10464, "before": None, "kind": "memory"}
    print_summary({"nodes": [], "notes": {"cost": "Costs are for one sample."}, "figures": [energy, memory]})
    assert capsys.readouterr().out.endswith("Energy: 224 nJ  (was 12.5 pJ)\nWeight memory: 1.31 kB\n")


def test_sensitivity_can_be_skipped_and_the_output_path_chosen(quantized: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the folder '.*/a' does not exist; create it, or choose another file"):
        report(ReportConfig(run=quantized, output=tmp_path / "a" / "page.html"))
    (tmp_path / "a").mkdir()
    page = report(ReportConfig(run=quantized, no_sensitivity=True, output=tmp_path / "a" / "page.html"))
    assert page == tmp_path / "a" / "page.html"
    assert report(ReportConfig(run=quantized, no_sensitivity=True, output=tmp_path)) == tmp_path / "report.html"
    assert not (quantized / "report.html").exists()
    assert all(node["sensitivity"]["alone"] is None for node in document_of(page)["nodes"])


def test_unwritable_output_is_reported_before_the_measurements(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'output' must end in \.html, got 'net\.py'"):
        report(ReportConfig(run=trained, output=Path("net.py")))
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot write in '.*file'"):
        report(ReportConfig(run=trained, output=tmp_path / "file" / "page.html"))


def test_sensitivity_of_large_models_is_measured_on_fewer_rows_or_skipped(
    trained: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    document = document_of(report(ReportConfig(run=trained)))
    layers = [node for node in document["nodes"] if node["quantizable"]]
    macs = sum(node["cost"]["macs"] for node in layers)  # per row
    monkeypatch.setattr(module, "MAX_SENSITIVITY_MACS", 9.5 * macs * len(layers))
    document = document_of(report(ReportConfig(run=trained)))
    assert document["notes"]["sensitivity"].endswith("on 9 rows.")
    monkeypatch.setattr(module, "MAX_SENSITIVITY_MACS", 0.5)
    document = document_of(report(ReportConfig(run=trained)))
    assert "sensitivity" not in document["notes"]
    assert "too large to measure the sensitivity" in caplog.text


def test_results_of_a_search_are_shown(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"accuracy": {"direction": "maximize"}}
    trial = {"number": 0, "state": "complete", "metrics": {"accuracy": 0.5}, "front": True, "toml": "a = 1\n"}
    (trained / "search").mkdir()
    log = trained / "search" / "log.json"
    log.write_text(json.dumps({"study": "s", "metrics": metrics, "trials": [trial]}))
    document = document_of(report(ReportConfig(run=trained, no_sensitivity=True)))
    assert document["search"]["trials"][0]["toml"] == "a = 1\n"
    assert document["search"]["best"] is None
    summary = trained / "summary.json"
    best = {"best": {"trial": 0, "accuracy": 0.5}, "rule": "highest accuracy"}
    summary.write_text(json.dumps(json.loads(summary.read_text()) | best))
    document = document_of(report(ReportConfig(run=trained, no_sensitivity=True)))
    command = f"ch transform --config {open_run(trained).folder.best_config}"
    assert document["search"]["best"] == {"number": 0, "rule": "highest accuracy", "command": command}
    assert "original model" in document["notes"]["search"]
    assert f"best: trial 0, highest accuracy\n      {command}\n" in capsys.readouterr().out
    for corrupt in ("{", "[]", '{"study": "s"}'):
        log.write_text(corrupt)
        with pytest.raises(ValueError, match="corrupt"):
            report(ReportConfig(run=trained))


@pytest.mark.parametrize("found", [True, False])
def test_the_page_is_opened_or_its_path_printed(
    found: bool, trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def open_page(url: str) -> bool:
        opened.append(url)
        return found

    monkeypatch.setattr(webbrowser, "open", open_page)
    page = report(ReportConfig(run=trained, open=True, no_sensitivity=True))
    assert opened == [page.absolute().as_uri()]
    assert (f"no browser was found; open {page}" in capsys.readouterr().out) is not found


def test_a_failed_write_keeps_the_previous_page(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = report(ReportConfig(run=trained, no_sensitivity=True))
    before = page.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("chop.files.os.replace", fail)
    with pytest.raises(OSError, match=r"report\.html"):
        report(ReportConfig(run=trained, no_sensitivity=True))
    assert page.read_bytes() == before


def test_the_command_reports_the_newest_run(quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--project-dir", str(quantized.parent), "--samples", "10", "--no-sensitivity"]) == 0
    assert f"saved in {quantized / 'report.html'}" in capsys.readouterr().out


def test_progress_is_shown_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = [{"x": [0] * 4}, {"x": [0] * 2}]
    assert list(BatchesWithProgress(batches, 6, "profiling")) == batches
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(BatchesWithProgress(batches, 6, "profiling")) == batches
    assert capsys.readouterr().err.split("\r\x1b[K") == ["", "profiling: 0 of 6 rows", "profiling: 4 of 6 rows", ""]


def test_the_page_contains_the_document(trained: Path) -> None:
    page = report(ReportConfig(run=trained, no_sensitivity=True))
    assert embedded(document_of(page)) in page.read_text()


def test_a_report_can_be_written_without_printing(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(trained)
    capsys.readouterr()
    document = write_report(run, num_samples=20, with_sensitivity=False)
    assert capsys.readouterr().out == ""
    assert json.loads(embedded(document)) == document_of(trained / "report.html")


def test_the_command_has_weights_in_memory_once_and_a_call_leaves_graphs_apart(
    quantized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, shared = compare_graphs_analysis_pass, []

    def compare_and_look(original: MaseGraph, graph: MaseGraph, *args: Any, **kwargs: Any) -> Any:
        parameters = zip(original.model.parameters(), graph.model.parameters(), strict=True)
        shared.append({a.data_ptr() == b.data_ptr() for a, b in parameters})
        return compare(original, graph, *args, **kwargs)

    monkeypatch.setattr(module, "compare_graphs_analysis_pass", compare_and_look)
    report(ReportConfig(run=quantized))
    write_report(open_run(quantized), with_sensitivity=False)
    assert shared == [{True}, {False}]


def test_each_part_of_a_report_is_shown_if_it_takes_long(quantized: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, titles = Stage.__init__, []

    def make_and_note(stage: Stage, title: str) -> None:
        titles.append(title)
        make(stage, title)

    monkeypatch.setattr(Stage, "__init__", make_and_note)
    report(ReportConfig(run=quantized))
    parts = ["measuring weights", "summarising tensors", "describing the nodes", "writing the page"]
    assert titles[-4:] == parts
