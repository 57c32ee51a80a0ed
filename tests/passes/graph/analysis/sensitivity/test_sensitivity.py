"""The sensitivity pass, compared with hand-computed numbers and with quantised copies that are run completely."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.dataset import MaseDataModule
from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.models import get_model_info
from chop.passes.graph import quantize_transform_pass, sensitivity_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.runs.input_generator import InputGenerator
from samples import LAB_CONFIG, Mixed, Tiny, annotated, tiny_graph

COARSE = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 2}  # steps of a quarter


class Branches(nn.Module):
    """In-place layers and functions, a method, and two branches that meet."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.BatchNorm1d(8), nn.Linear(8, 8))
        self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(x)
        F.relu(y, inplace=True)
        return torch.cat([self.left(y), self.right(y).mul(2)], dim=1)


class Twice(nn.Module):
    """One layer that is called at two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.last(self.shared(torch.tanh(self.shared(x))))
        return result


MODELS = {"tiny": (Tiny, 16), "mixed": (Mixed, 6), "branches": (Branches, 6), "twice": (Twice, 6)}


def made(name: str, rows: int = 24) -> tuple[MaseGraph, Tensor]:
    torch.manual_seed(0)
    model, width = MODELS[name]
    x = torch.randn(rows, width)
    graph = annotated(model().eval(), x=x)
    return graph, x


def sqnr(original: Tensor, other: Tensor) -> float:
    a, b = original.double().numpy(), other.double().numpy()
    noise = np.square(a - b).sum()
    return float(10 * np.log10(np.square(a).sum() / noise)) if noise else math.inf


def quantised(graph: MaseGraph, names: list[str]) -> MaseGraph:
    """Return a copy with these nodes quantised."""
    by_name = {name: {"config": LAB_CONFIG} for name in names}
    return quantize_transform_pass(deepcopy_mase_graph(graph), {"by": "name", **by_name})[0]


def output(graph: MaseGraph, x: Tensor) -> Tensor:
    with torch.no_grad():
        result: Tensor = graph.model(x.clone())
    return result


def one_layer(*weights: float) -> nn.Module:
    """From one number to as many as there are weights."""
    layer = nn.Linear(1, len(weights), bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights).unsqueeze(1))
    return nn.Sequential(layer)


def test_one_layer_agrees_with_hand_computed_numbers() -> None:
    model = one_layer(0.3, 0.6)  # rounded to quarters: 0.25 and 0.5
    x, labels = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1])
    graph = annotated(model, input=x)
    _, info = sensitivity_analysis_pass(graph, {"config": COARSE, "labelled_batches": [({"input": x}, labels)]})

    # Outputs are (0.3, 0.6) and twice that; errors (0.05, 0.1) and twice that.
    ratio = pytest.approx(10 * math.log10((0.3**2 + 0.6**2) / (0.05**2 + 0.1**2)), rel=1e-6)
    loss = (math.log(1 + math.exp(0.3)) + math.log(1 + math.exp(-0.6))) / 2
    rounded_loss = (math.log(1 + math.exp(0.25)) + math.log(1 + math.exp(-0.5))) / 2
    change = pytest.approx(rounded_loss - loss, rel=1e-5)
    effect = {"output_sqnr_db": ratio, "loss_change": change, "accuracy_change": 0.0}
    assert info == {
        "alone": {"_0": {"sqnr_db": ratio, **effect}},
        "all_but": {"_0": {"output_sqnr_db": math.inf, "loss_change": 0.0, "accuracy_change": 0.0}},
        "baseline": {"loss": pytest.approx(loss, rel=1e-6), "accuracy": 0.5},
        "quantized": effect,
        "num_samples": 2,
        "ranking": ["_0"],
    }


def test_a_changed_answer_changes_the_accuracy() -> None:
    model = one_layer(0.2, 0.1)  # 0.25 and 0: the same answer for x > 0
    x = torch.tensor([[1.0], [-1.0], [0.125], [3.0]])
    labels = torch.tensor([0, 1, 0, 1])
    # 0.125 is rounded to 0 (half to even), where the first class wins a tie; so all answers stay.
    given = {"config": COARSE, "labelled_batches": [({"input": x}, labels)]}
    _, info = sensitivity_analysis_pass(annotated(model, input=x), given)
    assert (info["baseline"]["accuracy"], info["quantized"]["accuracy_change"]) == (0.75, 0.0)
    model = one_layer(0.1, 0.12)  # both 0: always the first class
    _, info = sensitivity_analysis_pass(annotated(model, input=x), given)
    assert info["baseline"]["accuracy"] == 0.25  # answers 1, 0, 1, 1
    assert info["quantized"]["accuracy_change"] == 0.25  # answers 0, 0, 0, 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_all_numbers_agree_with_a_quantised_copy(name: str) -> None:
    graph, x = made(name)
    _, info = sensitivity_analysis_pass(graph, {"config": LAB_CONFIG, "input_generator": [{"x": x}]})
    metas = [meta for meta in graph.metas() if meta.quantizable]
    names = [meta.node.name for meta in metas]
    plain = output(graph, x)
    assert list(info["alone"]) == sorted(info["alone"], key=names.index)
    assert {*info["alone"]} == {*info["all_but"]} == {*names}
    for meta in metas:
        shared = [each.node.name for each in metas if each is meta or (meta.module and each.module is meta.module)]
        alone = output(quantised(graph, shared), x)
        all_but = output(quantised(graph, [each for each in names if each not in shared]), x)
        found = info["alone"][meta.node.name], info["all_but"][meta.node.name]
        assert [each["output_sqnr_db"] for each in found] == pytest.approx(
            [sqnr(plain, alone), sqnr(plain, all_but)]
        )
    assert info["quantized"]["output_sqnr_db"] == pytest.approx(sqnr(plain, output(quantised(graph, names), x)))
    ratios = [info["alone"][node]["output_sqnr_db"] for node in info["ranking"]]
    assert ratios == sorted(ratios)


@pytest.mark.slow
def test_the_formats_of_a_quantised_graph_are_measured_on_the_original_weights() -> None:
    graph, x = made("branches")
    _, expected = sensitivity_analysis_pass(graph, {"config": LAB_CONFIG, "input_generator": [{"x": x}]})
    changed = quantised(graph, list(expected["alone"]))
    with torch.no_grad():
        for parameter in changed.model.parameters():  # as a method for low bit widths or a fine-tuning does
            parameter.add_(1)
    _, found = sensitivity_analysis_pass(graph, {"quantized": changed, "input_generator": [{"x": x}]})
    assert found == expected
    with pytest.raises(ValueError, match="'quantized' has all formats and cannot be combined with 'config'"):
        sensitivity_analysis_pass(
            graph, {"quantized": changed, "config": LAB_CONFIG, "input_generator": [{"x": x}]}
        )


@pytest.mark.parametrize(
    ("name", "path"), [("tiny", "seq_blocks.2"), ("branches", "body.0"), ("branches", "right")]
)
def test_a_nodes_own_output_is_measured_before_later_nodes_overwrite_it(name: str, path: str) -> None:
    graph, x = made(name)
    node = path.replace(".", "_")
    _, info = sensitivity_analysis_pass(
        graph, {"config": LAB_CONFIG, "input_generator": [{"x": x}], "nodes": [node]}
    )
    seen: list[Tensor] = []
    for each in (graph, quantised(graph, [node])):
        copied = deepcopy_mase_graph(each)
        copied.modules[path].register_forward_hook(lambda _, given, result: seen.append(result.clone()))
        output(copied, x)
    assert info["alone"][node]["sqnr_db"] == pytest.approx(sqnr(*seen))
    assert list(info["alone"]) == list(info["all_but"]) == [node]


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[24], [7, 17], [1] * 24])
def test_several_batches_equal_one(sizes: list[int]) -> None:
    graph, x = made("branches")
    labels = torch.randint(0, 8, (24,))
    batches = zip(x.split(sizes), labels.split(sizes), strict=True)
    expected = with_labels(graph, [(x, labels)])
    found = with_labels(graph, list(batches))
    assert found["num_samples"] == 24
    for part in ("alone", "all_but"):
        for node, numbers in expected[part].items():
            # Sums of products in float32 depend on the number of rows in their last bits.
            assert found[part][node] == pytest.approx(numbers, rel=1e-3, abs=1e-6)
    assert found["baseline"] == pytest.approx(expected["baseline"], rel=1e-6)


def with_labels(graph: MaseGraph, pairs: list[tuple[Tensor, Tensor]], **extra: Any) -> dict[str, Any]:
    batches = [({"x": x}, labels) for x, labels in pairs]
    given = {"config": LAB_CONFIG, "labelled_batches": batches, **extra}
    return sensitivity_analysis_pass(graph, given)[1]


def test_loss_and_accuracy_agree_with_a_quantised_copy() -> None:
    graph, x = made("branches")
    labels = torch.randint(0, 8, (24,))
    info = with_labels(graph, [(x, labels)])
    before, after = output(graph, x).double(), output(quantised(graph, ["body_0"]), x).double()
    changes = info["alone"]["body_0"]
    assert info["baseline"]["loss"] == pytest.approx(F.cross_entropy(before, labels).item(), rel=1e-12)
    expected = (F.cross_entropy(after, labels) - F.cross_entropy(before, labels)).item()
    assert changes["loss_change"] == pytest.approx(expected, rel=1e-9)
    right = [(each.argmax(1) == labels).double().mean().item() for each in (before, after)]
    assert changes["accuracy_change"] == pytest.approx(right[1] - right[0])
    harm = [info["alone"][node]["loss_change"] for node in info["ranking"]]
    assert harm == sorted(harm, reverse=True)


def test_nodes_can_have_different_formats() -> None:
    graph, x = made("branches")
    batches = [{"x": x}]
    formats = {"by": "regex_name", "body_.*": {"config": LAB_CONFIG}, "left": {"config": COARSE}}
    _, info = sensitivity_analysis_pass(graph, {**formats, "input_generator": batches})
    assert list(info["alone"]) == ["body_0", "body_1", "body_2", "body_3", "left"]
    copied, _ = quantize_transform_pass(deepcopy_mase_graph(graph), formats)
    assert info["quantized"]["output_sqnr_db"] == pytest.approx(sqnr(output(graph, x), output(copied, x)))


def test_measuring_fewer_nodes_gives_the_same_numbers() -> None:
    graph, x = made("branches")
    given = {"config": LAB_CONFIG, "input_generator": [{"x": x}]}
    _, all_nodes = sensitivity_analysis_pass(graph, given)
    _, info = sensitivity_analysis_pass(graph, {**given, "nodes": ["body_3"], "both": False})
    assert info["alone"] == {"body_3": all_nodes["alone"]["body_3"]}
    assert info["all_but"] == {}
    assert info["quantized"] == all_nodes["quantized"]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_measured(name: str) -> None:
    graph, x = made("branches")
    choice = {"by": "type", "linear": {"config": {"name": name}}}
    _, info = sensitivity_analysis_pass(graph, {**choice, "input_generator": [{"x": x}]})
    numbers = [each["output_sqnr_db"] for each in (*info["alone"].values(), *info["all_but"].values())]
    assert len(numbers) == 8
    assert not any(math.isnan(number) for number in numbers)


def test_the_graph_stays_unchanged() -> None:
    graph = tiny_graph()
    graph.model.train()
    code, modules = graph.model.code, [*graph.model.modules()]
    state = {key: value.clone() for key, value in graph.model.state_dict().items()}
    pairs = [(torch.randn(8, 16), torch.zeros(8, dtype=torch.long))]
    random = torch.get_rng_state()
    with_labels(graph, pairs, config={"name": "integer", "data_in_rounding": "stochastic"})
    assert torch.get_rng_state().equal(random)
    assert graph.model.code == code
    assert all(module.training for module in graph.model.modules())
    assert [*graph.model.modules()] == modules
    assert all(value.equal(state[key]) for key, value in graph.model.state_dict().items())
    assert all(meta.quantized is None for meta in graph.metas())


def test_an_endless_input_generator_is_stopped() -> None:
    data = MaseDataModule(name="jsc", batch_size=8, num_rows=100)
    data.prepare_data()
    data.setup()
    generator = InputGenerator(data, get_model_info("jsc-tiny"), which_dataloader="val")
    given = {"config": LAB_CONFIG, "num_samples": 12}
    _, info = sensitivity_analysis_pass(tiny_graph(), {**given, "input_generator": generator})
    assert info["num_samples"] == 12
    assert info["baseline"] == {"loss": None, "accuracy": None}
    assert info["quantized"]["loss_change"] is None
    _, info = sensitivity_analysis_pass(tiny_graph(), {**given, "labelled_batches": generator.labelled()})
    assert info["num_samples"] == len(data.splits.val.labels) == 8
    assert info["baseline"]["accuracy"] * 8 == int(info["baseline"]["accuracy"] * 8)


def test_the_log_names_the_most_sensitive_nodes(caplog: pytest.LogCaptureFixture) -> None:
    graph, x = made("tiny")
    with caplog.at_level(logging.INFO, logger="chop"):
        _, info = sensitivity_analysis_pass(graph, {"config": LAB_CONFIG, "input_generator": [{"x": x}]})
    first = info["ranking"][0]
    number = f"{info['alone'][first]['output_sqnr_db']:.1f}"
    assert f"most sensitive first: {first} ({number} dB), " in caplog.text


X, LABELS = torch.zeros(2, 16), torch.zeros(2, dtype=torch.long)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": None}, "'config' must be a preset or a dict"),
        ({"config": {"name": "intger"}}, "unknown format 'intger'; did you mean 'integer'"),
        ({"num_sample": 3}, "unknown key 'num_sample'; did you mean 'num_samples'"),
        ({"num_samples": 0}, "'num_samples' must be at least 1, got 0"),
        ({"linear": {"config": LAB_CONFIG}}, "'config' is for all nodes and cannot be combined with 'linear'"),
        ({"nodes": ["seq_block_2"]}, "no replacement for node 'seq_block_2'; did you mean 'seq_blocks_2'"),
        ({"labelled_batches": None}, "exactly one of 'input_generator' and 'labelled_batches' is required"),
        ({"input_generator": []}, "exactly one of 'input_generator' and 'labelled_batches' is required"),
        ({"labelled_batches": []}, "no batches"),
        ({"labelled_batches": [{"x": X}]}, "must yield pairs of a dict .* and labels, got dict"),
        ({"labelled_batches": [({"x": X}, LABELS.float())]}, "labels must be integer class indices"),
        (
            {"labelled_batches": [({"x": X}, LABELS + 9)]},
            r"labels of shape \[2\] do not fit an output of shape \[2, 5\]",
        ),
        ({"labelled_batches": [({"x": X}, torch.zeros(3, dtype=torch.long))]}, r"labels of shape \[3\] do not fit"),
        ({"labelled_batches": [({"y": X}, LABELS)]}, "the model has no input 'y'"),
    ],
)
def test_mistakes_are_reported(change: dict[str, Any], message: str) -> None:
    given = {"config": LAB_CONFIG, "labelled_batches": [({"x": X}, LABELS)], **change}
    with pytest.raises((ValueError, LookupError), match=message):
        sensitivity_analysis_pass(tiny_graph(), given)


def test_missing_formats_and_formats_for_no_node_are_reported() -> None:
    batches = {"input_generator": [{"x": X}]}
    with pytest.raises(ValueError, match="needs either 'config', one format for all nodes, or 'by'"):
        sensitivity_analysis_pass(tiny_graph(), batches)
    with pytest.raises(ValueError, match="no node of this graph has a format"):
        sensitivity_analysis_pass(tiny_graph(), {"config": {"name": "NA"}, **batches})
    with pytest.raises(ValueError, match="by type: 'linaer' is not an op that can be quantised"):
        sensitivity_analysis_pass(tiny_graph(), {"by": "type", "linaer": {"config": LAB_CONFIG}, **batches})
    with pytest.raises(ValueError, match=r"must be a dict such as \{'config'"):
        sensitivity_analysis_pass(tiny_graph(), 3)
