"""The second lab from the first call to the last, and its output."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from chop.dataset import MaseDataModule, get_dataset_info
from chop.ir import MaseGraph
from chop.ir.graph.mase_graph import MaseGraph as DeepMaseGraph
from chop.models import get_model, get_model_info, register_model
from chop.passes import ANALYSIS_PASSES, INTERFACE_PASSES, PASSES, TRANSFORM_PASSES
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    calculate_avg_bits_mg_analysis_pass,
    count_bitops_analysis_pass,
    count_flops_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
    report_graph_analysis_pass,
    report_node_meta_param_analysis_pass,
)
from chop.passes.graph.transforms import quantize_transform_pass, summarize_quantization_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph, get_mase_op, get_mase_type, get_node_actual_target
from chop.tools.checkpoint_load import load_model
from chop.tools.get_input import InputGenerator

PASS_ARGS = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {
        "config": {
            "name": "integer",
            "data_in_width": 8,
            "data_in_frac_width": 4,
            "weight_width": 8,
            "weight_frac_width": 4,
            "bias_width": 8,
            "bias_frac_width": 4,
        }
    },
}


class Lab:
    """The objects that the first cells of the notebook create."""

    def __init__(self, model_name: str, folder: Path) -> None:
        self.data_module = MaseDataModule(name="jsc", batch_size=8, model_name=model_name, num_workers=0)
        self.data_module.prepare_data()
        self.data_module.setup()
        model_info = get_model_info(model_name)
        model = get_model(model_name, task="cls", dataset_info=self.data_module.dataset_info, pretrained=False)
        checkpoint = folder / "best.ckpt"
        torch.save({"state_dict": {f"model.{k}": v for k, v in model.state_dict().items()}}, checkpoint)
        self.model = load_model(load_name=str(checkpoint), load_type="pl", model=model)
        self.input_generator = InputGenerator(
            data_module=self.data_module, model_info=model_info, task="cls", which_dataloader="train"
        )
        self.dummy_in = next(iter(self.input_generator))

    def graph(self) -> MaseGraph:
        mg = MaseGraph(model=self.model)
        mg, _ = init_metadata_analysis_pass(mg, None)
        mg, _ = add_common_metadata_analysis_pass(mg, {"dummy_in": self.dummy_in})
        return mg


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab("jsc-tiny", tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab("jsc-toy", tmp_path_factory.mktemp("toy"))


@pytest.mark.slow
def test_batch_is_passed_to_the_model_by_name(tiny: Lab) -> None:
    assert list(tiny.dummy_in) == ["x"]
    assert tiny.model(**tiny.dummy_in).shape == (8, 5)
    assert next(tiny.input_generator)["x"].shape == (8, 16)
    assert get_dataset_info("jsc").num_classes == 5
    assert DeepMaseGraph is MaseGraph


def test_graph_report(tiny: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    mg, _ = add_software_metadata_analysis_pass(tiny.graph(), None)
    report_graph_analysis_pass(mg)
    printed = capsys.readouterr().out
    assert "%seq_blocks_2 : [num_users=1] = call_module[target=seq_blocks.2]" in printed
    counts = (
        "{'placeholder': 1, 'get_attr': 0, 'call_function': 0, 'call_method': 0, 'call_module': 4, 'output': 1}"
    )
    assert counts in printed
    assert "Layer types" in printed
    assert "ReLU(inplace=True), Linear(in_features=16, out_features=5, bias=True), ReLU(inplace=True)]" in printed


def test_statistics_of_weights_and_activations(tiny: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    mg, _ = add_software_metadata_analysis_pass(tiny.graph(), None)
    pass_args = {
        "by": "type",
        "target_weight_nodes": ["linear"],
        "target_activation_nodes": ["relu"],
        "weight_statistics": {"variance_precise": {"device": "cpu", "dims": "all"}},
        "activation_statistics": {"range_quantile": {"device": "cpu", "dims": "all", "quantile": 0.97}},
        "input_generator": tiny.input_generator,
        "num_samples": 32,
    }
    mg, _ = profile_statistics_analysis_pass(mg, pass_args)
    linear, relu = mg.metas()[3].parameters["software"], mg.metas()[2].parameters["software"]
    weight = tiny.model.get_parameter("seq_blocks.2.weight").detach().double()
    stat = linear["args"]["weight"]["stat"]["variance_precise"]
    assert stat["count"] == 80
    assert float(stat["mean"]) == pytest.approx(weight.mean().item())
    assert float(stat["variance"]) == pytest.approx(weight.var().item())
    quantiles = relu["args"]["data_in_0"]["stat"]["range_quantile"]
    assert quantiles["count"] == 32 * 16
    assert float(quantiles["range"]) == pytest.approx(float(quantiles["max"]) - float(quantiles["min"]))
    assert linear["args"]["data_in_0"] == {"stat": {}}
    report_node_meta_param_analysis_pass(mg, {"which": ("software",)})
    printed = capsys.readouterr().out
    assert "Software Param" in printed
    assert "variance_precise" in printed
    assert "Common Param" not in printed


def test_summary_shows_one_changed_op(tiny: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ori_mg, mg = tiny.graph(), tiny.graph()
    mg, _ = quantize_transform_pass(mg, PASS_ARGS)
    mg, info = summarize_quantization_analysis_pass(ori_mg, mg, save_dir=str(tmp_path / "quantize_summary"))
    table, histogram = info["table"], info["histogram"]
    assert list(table["Changed"]) == [False, False, False, True, False, False]
    assert list(table["Quantized type"]) == ["x", "BatchNorm1d", "ReLU", "LinearInteger", "ReLU", "output"]
    assert list(table["MASE_TYPE"]) == [
        *("placeholder", "module", "module_related_func", "module_related_func", "module_related_func", "output")
    ]
    assert histogram.loc["Linear"].tolist() == ["linear", 1, 1, 0]
    assert histogram.loc["ReLU"].tolist() == ["relu", 2, 0, 2]
    assert len(pd.read_csv(tmp_path / "quantize_summary" / "quantize_table.csv")) == 6
    assert (tmp_path / "quantize_summary" / "quantize_histogram.csv").exists()
    assert "LinearInteger" in capsys.readouterr().out


def test_traversal_of_both_graphs(tiny: Lab) -> None:
    ori_mg, mg = tiny.graph(), tiny.graph()
    mg, _ = quantize_transform_pass(mg, PASS_ARGS)
    rows = [
        (
            n.name,
            get_mase_type(n),
            get_mase_op(n),
            type(get_node_actual_target(n)) is not type(get_node_actual_target(o)),
        )
        for o, n in zip(ori_mg.fx_graph.nodes, mg.fx_graph.nodes, strict=True)
    ]
    assert rows[1] == ("seq_blocks_0", "module", "batch_norm1d", False)
    assert rows[3] == ("seq_blocks_2", "module_related_func", "linear", True)
    xs, _ = next(iter(tiny.data_module.val_dataloader()))
    ours, theirs = (next(iter(g.fx_graph.nodes)).meta["mase"].model(xs) for g in (mg, ori_mg))
    assert ours.shape == theirs.shape == (8, 5)
    assert not ours.equal(theirs)
    assert (ours - theirs).abs().max() < 1


@pytest.mark.parametrize(
    ("lab", "operations", "after", "bitops", "bitops_after"),
    [("tiny", 1320, 680, 1205504, 575744), ("toy", 3336, 1480, 3181824, 1355520)],
)
def test_counts_match_the_notes(
    lab: str, operations: int, after: int, bitops: int, bitops_after: int, request: pytest.FixtureRequest
) -> None:
    found: Lab = request.getfixturevalue(lab)
    ori_mg = found.graph()
    mg, _ = quantize_transform_pass(deepcopy_mase_graph(ori_mg), PASS_ARGS)
    assert count_flops_analysis_pass(ori_mg)[1]["total_flops"] == operations
    assert count_flops_analysis_pass(mg)[1]["total_flops"] == after
    assert count_bitops_analysis_pass(ori_mg)[1]["total_bitops"] == bitops
    assert count_bitops_analysis_pass(mg)[1]["total_bitops"] == bitops_after
    assert mg.metas()[3].parameters["common"]["flop"] == 0


def test_average_bits(tiny: Lab) -> None:
    mg, _ = quantize_transform_pass(tiny.graph(), PASS_ARGS)
    info = calculate_avg_bits_mg_analysis_pass(mg, None)[1]
    # weights: batch norm 32 elements at 32 bits, linear 85 at 8; inputs: 128 + 128 + 40 at 32, 128 at 8
    assert info["w_avg_bit"] == pytest.approx((32 * 32 + 85 * 8) / 117)
    assert info["data_avg_bit"] == pytest.approx((296 * 32 + 128 * 8) / 424)


class Test(nn.Module):
    """The network of the notes with 11,015 parameters."""

    __test__ = False

    def __init__(self, info: Any) -> None:
        super().__init__()
        widths = [16, 64, 128, 8, 8, 5]
        layers: list[nn.Module] = [nn.BatchNorm1d(16), nn.ReLU(16)]  # type: ignore[arg-type]
        for i, o in itertools.pairwise(widths):
            layers += [nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU(o)]  # type: ignore[arg-type]
        self.seq_blocks = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.seq_blocks(x)
        return y


def get_test(info: Any) -> Test:
    return Test(info)


@pytest.mark.slow
def test_network_of_a_student(tiny: Lab) -> None:
    register_model("test-of-the-lab")(get_test)
    model = get_model("test-of-the-lab", task="cls", dataset_info=tiny.data_module.dataset_info, pretrained=False)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 11_015
    mg, _ = init_metadata_analysis_pass(MaseGraph(model=model), None)
    mg, _ = add_common_metadata_analysis_pass(mg, {"dummy_in": tiny.dummy_in})
    ori_mg = deepcopy_mase_graph(mg)
    mg, _ = quantize_transform_pass(mg, PASS_ARGS)
    _, info = summarize_quantization_analysis_pass(ori_mg, mg)
    rows = {kind: list(row) for kind, row in info["histogram"].iterrows()}
    assert rows == {
        "BatchNorm1d": ["batch_norm1d", 6, 0, 6],
        "Linear": ["linear", 5, 5, 0],
        "ReLU": ["relu", 6, 0, 6],
        "output": ["output", 1, 0, 1],
        "x": ["placeholder", 1, 0, 1],
    }


def test_passes_are_found_by_name_and_kind() -> None:
    assert PASSES["quantize"] is TRANSFORM_PASSES["quantize"] is quantize_transform_pass
    assert "report_graph" in ANALYSIS_PASSES
    assert "save_mase_graph" in INTERFACE_PASSES
    assert len(PASSES) == len(ANALYSIS_PASSES) + len(TRANSFORM_PASSES) + len(INTERFACE_PASSES)
