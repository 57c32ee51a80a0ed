"""Passes in order over a graph: data for each run of a pass, and the graph before the transforms."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from chop.config import TransformConfig
from chop.ir import MaseGraph
from chop.passes.base import ANALYSIS_PASSES, PASSES, TRANSFORM_PASSES, PassResult, register_pass
from chop.registry import UnknownNameError
from chop.runs import Experiment
from chop.transforming.pipeline import Comparison, numbers_in, run_passes, with_recovery
from chop.transforming.transform import transform

INTEGER = {"name": "integer", "weight_width": 4, "weight_frac_width": 2}
QUANTIZE = {"by": "type", "linear": {"config": INTEGER}}
NEED_HARDWARE = ("emit_verilog", "emit_testbench", "resolve_formats")
"""Transforms of graphs in fixed point."""


@pytest.fixture
def experiment() -> Experiment:
    return Experiment.load(TransformConfig(model="toy", dataset="toy_tiny", batch_size=64))


@dataclass(frozen=True)
class CountArgs:
    input_generator: Iterator[dict[str, Tensor]] | None = None
    original: MaseGraph | None = None


@pytest.fixture
def originals(monkeypatch: pytest.MonkeyPatch) -> list[MaseGraph | None]:
    """Register a pass that counts the rows it is given; return the list of the originals it is given."""
    given: list[MaseGraph | None] = []
    for registry in (PASSES, ANALYSIS_PASSES):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))

    def count_rows(graph: MaseGraph, args: CountArgs) -> PassResult:
        given.append(args.original)
        assert args.input_generator is not None
        return graph, {"rows": sum(len(batch["x"]) for batch in args.input_generator), "by_node": {}}

    count_rows.__annotations__ = {"graph": MaseGraph, "args": CountArgs}
    register_pass("count_rows", kind="analysis", compare=True)(count_rows)
    return given


def test_a_compared_pass_gets_all_data_in_both_runs(experiment: Experiment, originals: list[object]) -> None:
    passes: dict[str, dict[str, Any]] = {"quantize": QUANTIZE, "count_rows": {}}
    comparisons = run_passes(passes, experiment.annotated_graph(), experiment).comparisons
    assert comparisons == [Comparison("count_rows", "rows", before=720, after=720)]


def test_the_original_is_the_graph_before_the_transforms(
    experiment: Experiment, originals: list[MaseGraph | None]
) -> None:
    original = experiment.annotated_graph()
    graph = run_passes({"quantize": QUANTIZE, "count_rows": {}}, original, experiment).graph
    assert originals == [original, original]
    assert not any(meta.quantized for meta in original.metas())
    assert any(meta.quantized for meta in graph.metas())


def addresses(graph: MaseGraph) -> dict[str, int]:
    """Return where the weights of layers are in memory; vectors and scalars are always copied."""
    return {key: each.data_ptr() for key, each in graph.model.named_parameters() if each.dim() > 1}


@pytest.mark.slow
def test_weights_are_in_memory_once_if_no_pass_changes_them(experiment: Experiment) -> None:
    original = experiment.annotated_graph()
    passes: dict[str, dict[str, Any]] = {"quantize": QUANTIZE, "calibrate": {}, "estimate_cost": {}}
    graph = run_passes(passes, original, experiment).graph
    assert addresses(graph) == addresses(original) != {}
    graph.metas()[1].notes["own"] = {"macs": 1}
    assert "own" not in original.metas()[1].notes


def test_moving_a_graph_that_shares_weights_leaves_the_original_where_it_is(experiment: Experiment) -> None:
    original = experiment.annotated_graph()
    graph = run_passes({"quantize": QUANTIZE}, original, experiment).graph
    graph.model.to(torch.float64)
    assert {each.dtype for each in original.model.parameters()} == {torch.float32}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, run in TRANSFORM_PASSES.items() if name not in NEED_HARDWARE])
def test_transforms_leave_the_weights_of_the_original_as_they_are(name: str, experiment: Experiment) -> None:
    learned = {**INTEGER, "data_in_scale": "learned", "weight_scale": "learned"}
    quantize: dict[str, Any] = {"by": "type", "linear": {"config": learned}}
    original = run_passes({"quantize": quantize}, experiment.annotated_graph(), experiment).graph
    before = {key: each.clone() for key, each in original.model.state_dict().items()}
    run_passes({name: quantize if name == "quantize" else {}}, original, experiment)
    after = original.model.state_dict()
    assert after.keys() == before.keys()
    assert all(after[key].equal(value) for key, value in before.items())


def test_results_of_passes_keep_no_tensors(experiment: Experiment) -> None:
    profile = {
        "target_weight_nodes": ["linear"],
        "target_activation_nodes": ["linear"],
        "weight_statistics": {"range_quantile": {"quantile": 0.9}},
        "activation_statistics": {"range_quantile": {"quantile": 0.9}},
        "num_samples": 4,
    }
    infos = run_passes({"profile_statistics": profile}, experiment.annotated_graph(), experiment).infos
    assert json.loads(json.dumps(infos)) == infos
    assert infos["profile_statistics"]["num_samples"] == 4
    assert infos["profile_statistics"]["profile"]["collections"]


def test_passes_over_two_graphs_run_in_a_pipeline(
    experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    passes: dict[str, dict[str, Any]] = {"quantize": QUANTIZE, "summarize_quantization": {}, "compare_graphs": {}}
    run_passes(passes, experiment.annotated_graph(), experiment)
    assert "LinearInteger" in capsys.readouterr().out


def test_an_unknown_pass_is_reported() -> None:
    with pytest.raises(UnknownNameError, match="unknown pass 'quantise'; did you mean 'quantize'"):
        transform(TransformConfig(model="toy", dataset="toy_tiny", passes={"quantise": {}}))


def test_numbers_are_found_at_the_top_in_the_total_and_as_the_lowest_sqnr() -> None:
    info = {
        "total_flops": 3,
        "total": {"macs": 5, "energy_pj": None},
        "by_node": {"a": 1},
        "fc1": {"weight": {"sqnr_db": 20.0, "format": "integer"}, "data_in_0": {"sqnr_db": 12.5}},
    }
    assert numbers_in(info) == {"total_flops": 3, "macs": 5, "lowest SQNR in dB (fc1.data_in_0)": 12.5}


def test_operands_without_error_do_not_have_the_lowest_sqnr() -> None:
    info = {"fc1": {"weight": {"sqnr_db": 20.0}, "bias": {"sqnr_db": "inf"}}}
    assert numbers_in(info) == {"lowest SQNR in dB (fc1.weight)": 20.0}


def test_recovery_runs_after_quantisation_and_calibration() -> None:
    assert list(with_recovery({"quantize": QUANTIZE, "gptq": {}})) == ["quantize", "recover_accuracy", "gptq"]
    assert list(with_recovery({"quantize": {}, "calibrate": {}})) == ["quantize", "calibrate", "recover_accuracy"]
    own: dict[str, dict[str, Any]] = {"quantize": {}, "prune": {}, "recover_accuracy": {"num_samples": 3}}
    assert with_recovery(own) == own
    with pytest.raises(ValueError, match=r"'recover_accuracy' needs \[passes.quantize\]"):
        with_recovery({"prune": {}})
