"""Several replacements per node, each of which runs only the nodes that depend on it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.nn.quantized import QuantConfig, QuantizedLayer
from chop.passes.graph import sensitivity_analysis_pass
from chop.passes.graph.analysis.sensitivity import LabelledReplacements, labelled_replacements, measure_sensitivity
from chop.passes.graph.transforms.quantize.quantize import QuantizeArgs
from samples import annotated


def layers(count: int) -> tuple[MaseGraph, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(16, 4)
    return annotated(nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))).eval(), input=x), x


def config(width: int) -> dict[str, Any]:
    return {"name": "integer", "data_in_width": width, "data_in_frac_width": width - 3}


def widths(graph: MaseGraph, *of: int) -> LabelledReplacements:
    choices = {str(width): QuantizeArgs("type", {}, QuantConfig.read(config(width), "")) for width in of}
    return labelled_replacements(graph, choices)


def test_several_widths_at_once_equal_one_after_the_other() -> None:
    graph, x = layers(3)
    labels = torch.randint(0, 4, (16,))
    found = measure_sensitivity(graph, widths(graph, 4, 6, 8), [({"input": x}, labels)])
    for width in (4, 6, 8):
        _, info = sensitivity_analysis_pass(
            graph, {"config": config(width), "labelled_batches": [({"input": x}, labels)]}
        )
        for node, numbers in info["alone"].items():
            assert vars(found.alone[node][str(width)]) == numbers
        for node, numbers in info["all_but"].items():
            assert vars(found.all_but[node][str(width)]) == {"sqnr_db": None, **numbers}
        assert found.quantized[str(width)].output_sqnr_db == info["quantized"]["output_sqnr_db"]
    ratios = [found.alone["_1"][str(width)].output_sqnr_db for width in (4, 6, 8)]
    assert ratios == sorted(ratios)


def test_nothing_before_a_change_runs_again() -> None:
    graph, x = layers(4)
    calls: list[str] = []
    for path, layer in graph.model.named_children():
        layer.register_forward_hook(lambda *_, path=path: calls.append(path))  # replacements copy the hooks
    given = widths(graph, 8)
    measure_sensitivity(graph, given, [({"input": x}, None)], both=False)
    # One unchanged run; each layer alone with those after it, 4 + 3 + 2 + 1; one run with all.
    assert len(calls) == 4 + 10 + 4
    calls.clear()
    measure_sensitivity(graph, given, [({"input": x}, None)])
    assert len(calls) == 4 + 10 + 4 + 10
    calls.clear()
    measure_sensitivity(graph, given, [({"input": x}, None)], nodes=["_3"])
    assert len(calls) == 4 + 1 + 4 + 1


def test_a_node_may_have_fewer_replacements_than_others() -> None:
    graph, x = layers(3)
    given = dict(widths(graph, 4, 8))
    given["_1"] = {"8": given["_1"]["8"]}
    del given["_2"]
    found = measure_sensitivity(graph, given, [({"input": x}, None)])
    assert {node: [*by_label] for node, by_label in found.alone.items()} == {"_0": ["4", "8"], "_1": ["8"]}
    assert {node: [*by_label] for node, by_label in found.all_but.items()} == {"_0": ["4", "8"], "_1": ["8"]}
    assert found.quantized["4"].output_sqnr_db == found.alone["_0"]["4"].output_sqnr_db


def test_replacements_in_training_mode_are_measured_in_evaluation_mode() -> None:
    x = torch.randn(16, 4)
    graph = annotated(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2)), input=x)
    assert graph.model.training
    given = widths(graph, 8)
    norm = given["_0"]["8"]
    assert isinstance(norm, QuantizedLayer)
    found = measure_sensitivity(graph, given, [({"input": 1 + x / 2}, None)])
    assert found.alone["_0"]["8"].output_sqnr_db > 20  # it would be below 10 with the statistics of the batch
    assert norm.training
    assert norm.running_mean.equal(torch.zeros(4))  # type: ignore[operator]


class AlwaysDrops(nn.Module):
    """Dropout in evaluation mode too, as with the default argument of `F.dropout`."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(nn.functional.dropout(self.first(x)))
        return y


def test_random_ops_draw_the_same_numbers_in_each_run() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 4)
    graph = annotated(AlwaysDrops().eval(), x=x)
    found = measure_sensitivity(graph, widths(graph, 12), [({"x": x}, None)])
    # 9 fraction bits give about 50 dB; if other numbers were dropped, it would be below 10.
    assert found.alone["first"]["12"].output_sqnr_db > 35
    assert found.all_but["last"]["12"].output_sqnr_db == found.alone["first"]["12"].output_sqnr_db


def test_mistakes_are_reported() -> None:
    graph, x = layers(2)
    given = widths(graph, 8)
    with pytest.raises(ValueError, match="there is no node '_7'"):
        measure_sensitivity(graph, {"_7": given["_0"]}, [({"input": x}, None)])
    with pytest.raises(ValueError, match="there is no replacement for node 'input_1'"):
        measure_sensitivity(graph, given, [({"input": x}, None)], nodes=["input_1"])
    with pytest.raises(ValueError, match="either all batches or none of them must have labels"):
        measure_sensitivity(graph, given, [({"input": x}, None), ({"input": x}, torch.zeros(16, dtype=torch.long))])
    with pytest.raises(ValueError, match="no batches"):
        measure_sensitivity(graph, given, [])
