"""`ch transform` runs passes in order, and keeps the result in a new run folder."""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch

from chop.actions.train import train
from chop.actions.transform import transform
from chop.cli import main
from chop.config import TestConfig, TrainConfig, TransformConfig, TransformTable
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes import ANALYSIS_PASSES, PASSES, PassResult, register_pass
from chop.passes.graph import load_mase_graph_interface_pass
from chop.registry import UnknownNameError
from chop.runs import RunFolder
from chop.training.testing import run_test

INTEGER = {
    "name": "integer",
    "data_in_width": 8,
    "data_in_frac_width": 4,
    "weight_width": 8,
    "weight_frac_width": 4,
    "bias_width": 8,
    "bias_frac_width": 4,
}


@dataclass(frozen=True)
class NoArgs:
    pass


@pytest.fixture
def config(tmp_path: Path) -> TransformConfig:
    quantize = {"by": "type", "linear": {"config": INTEGER}}
    return TransformConfig(
        model="toy", dataset="toy_tiny", batch_size=4, project_dir=tmp_path / "out", passes={"quantize": quantize}
    )


@pytest.mark.slow
def test_each_run_has_a_new_folder(config: TransformConfig) -> None:
    folders = [transform(config) for _ in range(3)]
    name = f"toy_classification_toy_tiny_{date.today().isoformat()}"
    expected = [config.project_dir / each / "software/transform" for each in (name, f"{name}_2", f"{name}_3")]
    assert folders == expected


def test_the_change_is_printed_and_written(config: TransformConfig, capsys: pytest.CaptureFixture[str]) -> None:
    folder = transform(config)
    assert "LinearInteger" in capsys.readouterr().out
    assert {file.name for file in folder.iterdir()} == {
        "quantize_table.csv",
        "quantize_histogram.csv",
        "passes.json",
        "transformed_ckpt",
    }


@pytest.mark.slow
def test_the_saved_graph_is_the_transformed_one(config: TransformConfig) -> None:
    graph, _ = load_mase_graph_interface_pass(None, {"load_dir": transform(config) / "transformed_ckpt"})
    assert type(graph.modules["seq_blocks.0"]).__name__ == "LinearInteger"


@pytest.mark.slow
def test_the_seed_decides_the_weights(config: TransformConfig) -> None:
    first, again, other = (
        load_mase_graph_interface_pass(None, {"load_dir": transform(each) / "transformed_ckpt"})[0].model
        for each in (config, config, replace(config, seed=1))
    )
    key = "seq_blocks.0.weight"
    assert first.state_dict()[key].equal(again.state_dict()[key])
    assert not first.state_dict()[key].equal(other.state_dict()[key])


@pytest.mark.slow
def test_the_weights_of_a_checkpoint_are_transformed(config: TransformConfig, tmp_path: Path) -> None:
    class Info:
        num_features, num_classes, feature_shape = 4, 2, (4,)

    trained = get_model("toy", dataset_info=Info())
    torch.save(trained.state_dict(), tmp_path / "a.pt")
    folder = transform(replace(config, load_name=tmp_path / "a.pt"))
    graph, _ = load_mase_graph_interface_pass(None, {"load_dir": folder / "transformed_ckpt"})
    assert graph.model.state_dict()["seq_blocks.0.weight"].equal(trained.state_dict()["seq_blocks.0.weight"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"passes": {"quantise": {}}}, "unknown pass 'quantise'; did you mean 'quantize'?"),
        ({"model": "tooy"}, "unknown model 'tooy'; did you mean 'toy'?"),
        ({"dataset": "jcs"}, "unknown data set 'jcs'; did you mean 'jsc'?"),
        ({"load_name": Path("no.ckpt")}, "checkpoint 'no.ckpt' does not exist"),
    ],
)
def test_an_error_is_reported_and_leaves_no_folder(
    config: TransformConfig, change: dict[str, object], message: str
) -> None:
    with pytest.raises((UnknownNameError, ValueError)) as caught:
        transform(replace(config, **change))  # type: ignore[arg-type]
    assert str(caught.value) == message
    assert not config.project_dir.exists()


@pytest.mark.slow
def test_a_project_folder_that_is_a_file_is_reported(config: TransformConfig) -> None:
    config.project_dir.write_text("")
    with pytest.raises(OSError, match=r"cannot write in .*out: Not a directory"):
        transform(config)


@pytest.mark.slow
def test_a_missing_gpu_is_a_warning(config: TransformConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="chop"):
        transform(replace(config, accelerator="gpu"))
    assert torch.cuda.is_available() or "accelerator 'gpu' is not available on this machine" in caplog.text


@pytest.mark.slow
def test_both_graphs_are_evaluated_on_the_test_split(
    config: TransformConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run = transform(config).parents[1]
    results = summary(run)["test"]
    assert set(results) == {"before", "after"}
    assert results["before"]["loss"] != results["after"]["loss"]
    out = capsys.readouterr().out
    assert "data: toy_tiny (synthetic), test split" in out
    assert f"{results['after']['loss']:.4f}" in out
    assert (run / "run.toml").is_file()
    assert (run / "metrics.jsonl").is_file()


def test_the_evaluation_can_be_turned_off(config: TransformConfig, capsys: pytest.CaptureFixture[str]) -> None:
    run = transform(replace(config, transform=TransformTable(evaluate=False))).parents[1]
    assert summary(run)["test"] == {}
    assert "test split" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_transformed_graph_can_be_tested_and_trained(config: TransformConfig) -> None:
    folder = transform(config)
    common: dict[str, Any] = {"model": "toy", "dataset": "toy_tiny", "project_dir": config.project_dir}
    after = summary(folder.parents[1])["test"]["after"]
    tested = summary(run_test(TestConfig(load_name=folder / "transformed_ckpt", **common)).path)["test"]
    assert tested["accuracy"] == after["accuracy"]
    assert tested["loss"] == pytest.approx(after["loss"])
    load = folder / "transformed_ckpt"
    run = train(TrainConfig(load_name=load, max_epochs=4, learning_rate=0.01, batch_size=32, **common))
    trained = summary(run)["test"]
    assert trained["loss"] < after["loss"]
    again = run / "software/transform/transformed_ckpt"
    graph, _ = load_mase_graph_interface_pass(None, {"load_dir": again})
    assert type(graph.modules["seq_blocks.0"]).__name__ == "LinearInteger"
    again_tested = summary(run_test(TestConfig(load_name=again, **common)).path)["test"]
    assert again_tested == {**trained, "loss": pytest.approx(trained["loss"])}  # in batches of another size
    cost, quantised = summary(run)["cost"], summary(folder.parents[1])["cost"]
    for name in ("weight_bits", "average_weight_bits", "average_activation_bits"):
        assert cost["after"][name] == quantised["after"][name] < quantised["before"][name]
    for name in ("macs", "bitops"):
        assert cost["after"][name] / cost["samples"] == quantised["after"][name] / quantised["samples"]


@pytest.mark.slow
def test_weights_without_their_formats_are_a_warning(
    config: TransformConfig, caplog: pytest.LogCaptureFixture
) -> None:
    common: dict[str, Any] = {"model": "toy", "dataset": "toy_tiny", "project_dir": config.project_dir}
    run = train(TrainConfig(load_name=transform(config) / "transformed_ckpt", max_epochs=1, **common))
    with caplog.at_level(logging.WARNING, logger="chop"):
        run_test(TestConfig(load_name=run / "software/training_ckpts/best.ckpt", **common))
    assert "best.ckpt holds weights without number formats; " in caplog.text


def summary(run: Path) -> Any:
    return json.loads((run / "summary.json").read_text())


@pytest.mark.slow
def test_layers_are_quantised_without_a_graph(config: TransformConfig, capsys: pytest.CaptureFixture[str]) -> None:
    by_graph = summary(transform(config).parents[1])
    capsys.readouterr()
    folder = transform(replace(config, transform=TransformTable(style="module")))
    assert "LinearInteger" in capsys.readouterr().out
    assert summary(folder.parents[1])["test"] == by_graph["test"]
    assert torch.load(folder / "transformed.pt", weights_only=True).keys()
    with pytest.raises(ValueError, match="pass 'count_flops' needs a graph"):
        transform(replace(config, passes={"count_flops": {}}, transform=TransformTable(style="module")))


@pytest.mark.slow
def test_passes_that_need_data_get_training_rows(config: TransformConfig) -> None:
    calibrated = replace(config, passes={**config.passes, "calibrate": {"method": "mse", "num_batches": 3}})
    graph, _ = load_mase_graph_interface_pass(None, transform(calibrated) / "transformed_ckpt")
    plain, _ = load_mase_graph_interface_pass(None, transform(config) / "transformed_ckpt")
    widths = [
        [m.args["data_in_0"].format.precision for m in each.metas() if m.mase_op == "linear"]
        for each in (graph, plain)
    ]
    assert widths[0] != widths[1] == [[8, 4]] * len(widths[1])


@pytest.mark.slow
def test_what_passes_measure_is_printed_and_kept(
    config: TransformConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    passes = {**config.passes, "count_bitops": {}, "calculate_avg_bits_mg": {}, "verify_quantization": {}}
    folder = transform(replace(config, passes=passes))
    printed = capsys.readouterr().out
    measured = {each["what"]: each for each in summary(folder.parents[1])["measured"]}
    assert measured["total_bitops"]["before"] > measured["total_bitops"]["after"] > 0
    assert measured["w_avg_bit"]["before"] == 32
    assert measured["w_avg_bit"]["after"] < 32
    assert any(what.startswith("lowest SQNR in dB (") for what in measured)
    assert "total_bitops" in printed
    assert str(measured["total_bitops"]["after"]) in printed


def test_arguments_of_all_passes_are_read_before_the_first_runs(config: TransformConfig) -> None:
    passes: dict[str, dict[str, Any]] = {
        "report_graph": {"file_name": str(config.project_dir) + ".txt"},
        "count_flops": {"convention": 3},
    }
    with pytest.raises(ValueError, match="'convention' must be str, got 3"):
        transform(replace(config, passes=passes))
    assert not Path(str(config.project_dir) + ".txt").exists()


def test_a_transform_without_passes_is_an_error(config: TransformConfig) -> None:
    with pytest.raises(ValueError, match=r"there are no passes to run: add them .*; 'ch sweep' quantises all"):
        transform(replace(config, passes={}))
    assert not config.project_dir.exists()


@pytest.mark.slow
def test_untrained_weights_are_a_warning(config: TransformConfig, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="chop"):
        transform(config)
    assert "'toy' has untrained weights" in caplog.text


@pytest.mark.slow
def test_a_full_disk_leaves_no_incomplete_run(config: TransformConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file = os.replace

    def replace_or_fail(source: Path, target: Path) -> None:
        if target.name == "graph.json":
            raise OSError(28, "No space left on device")
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", replace_or_fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*graph.json'"):
        transform(config)
    assert list(config.project_dir.iterdir()) == []


@pytest.mark.slow
def test_a_pass_that_needs_labels_gets_those_of_the_data(
    config: TransformConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="chop"):
        folder = transform(replace(config, passes={"sensitivity": {"config": INTEGER}}))
    kept = json.loads((folder / "passes.json").read_text())["sensitivity"]
    assert "seq_blocks_0" in json.dumps(kept)
    assert "loss_change" in json.dumps(kept)
    assert re.search(r"most sensitive first: seq_blocks_\d \(loss [+-]\S+, \S+ dB\), ", caplog.text)


@pytest.mark.slow
def test_the_cost_before_and_after_is_always_kept(config: TransformConfig) -> None:
    cost = summary(transform(config).parents[1])["cost"]
    assert (cost["samples"], cost["convention"], cost["unknown"]) == (4, "bops", [])
    macs = 4 * (4 * 16 + 16 * 16 + 16 * 2)  # 4 rows of 4 features through layers of 16, 16 and 2
    parameters = (4 * 16 + 16) + (16 * 16 + 16) + (16 * 2 + 2)
    for when, bits in (("before", 32), ("after", 8)):
        assert cost[when]["macs"] == macs
        assert cost[when]["bitops"] == macs * bits * bits
        assert cost[when]["weight_bits"] == parameters * bits
        assert cost[when]["average_weight_bits"] == bits


@pytest.mark.slow
def test_a_report_is_written_on_request(config: TransformConfig, capsys: pytest.CaptureFixture[str]) -> None:
    page = transform(replace(config, report=True)).parent.parent / "report.html"
    assert "<!doctype html>" in page.read_text().lower()
    assert f"report: {page}" in capsys.readouterr().out
    module = TransformTable(style="module")
    with pytest.raises(ValueError, match="'report' cannot be used with style = \"module\""):
        transform(replace(config, report=True, transform=module))


@pytest.mark.slow
def test_results_of_all_passes_are_printed_and_kept(
    config: TransformConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for registry in (PASSES, ANALYSIS_PASSES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def count_zeros(graph: MaseGraph, args: NoArgs) -> PassResult:
        return graph, {"total": 12345, "by_node": {"seq_blocks_0": 67}}

    count_zeros.__annotations__ = {"graph": MaseGraph, "args": NoArgs}
    register_pass("count_zeros", kind="analysis")(count_zeros)
    folder = RunFolder(transform(replace(config, passes={**config.passes, "count_zeros": {}})).parents[1])
    printed = capsys.readouterr().out
    assert "count_zeros\nresult      value\n" in printed
    assert "12,345" in printed
    assert "seq_blocks_0       67\n" in printed
    kept = json.loads(folder.pass_results.read_text())
    assert kept["count_zeros"] == {"total": 12345, "by_node": {"seq_blocks_0": 67}}
    assert "quantized" in kept["quantize"]


@pytest.mark.slow
def test_a_graph_that_is_already_quantised_is_reported(
    config: TransformConfig, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = transform(config)
    transform(replace(config, load_name=folder.parents[1]))
    assert "the loaded model is already quantised: " in caplog.text
    assert "before (quantised)" in capsys.readouterr().out
    assert "has untrained weights: it was made without a checkpoint" in caplog.text


@pytest.mark.slow
def test_a_pass_in_the_style_of_the_course_notes_runs_from_a_toml_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.py").write_text(COURSE_PASS)
    text = "[passes.count_layers_of_notes]\nnames = ['linear']\nlimits = {least = 2}\n"
    (tmp_path / "a.toml").write_text(f"model = 'toy'\ndataset = 'toy_tiny'\nplugins = ['notes.py']\n{text}")
    words = ["--plugin", str(tmp_path / "notes.py"), "--project-dir", str(tmp_path / "out")]
    assert main(["transform", "--config", str(tmp_path / "a.toml"), *words]) == 0
    assert re.search(r"linear +3\n", capsys.readouterr().out)


COURSE_PASS = """
from chop.passes import register_pass
from chop.passes.graph.utils import get_mase_op


@register_pass("count_layers_of_notes", kind="analysis")
def count_layers_pass(graph, pass_args={}):
    ops = [get_mase_op(node) for node in graph.fx_graph.nodes]
    found = {name: ops.count(name) for name in pass_args["names"]}
    return graph, {name: n for name, n in found.items() if n >= pass_args["limits"]["least"]}
"""
